/// Who vouches for a model's files, and whether they are those files.
///
/// A [ModelBundle] is the file `model.sig`, a [TrustStore] the keys that count. [SignedModel] is what comes out when one
/// of them verifies the other: a [ModelStatement], the list of files with their digests. It is compared with
/// [ModelContents], files on a disk or bytes in memory, and gives a [ModelReport]. [BundleSigner] makes a bundle with a
/// [ModelSigningKey].
///
/// The only package of the module that reads JSON. Bytes and codes are documented in docs/formats.md.
@NullMarked
package millrace.integrity.model;

import org.jspecify.annotations.NullMarked;

/// What steps read and never write: the weights in memory, cut into blocks, each with a checksum kept elsewhere, and the
/// thread that compares them again and again.
///
/// ```
///  MatrixRegion, ArrayRegion ──checksum──▶ BlockTable, two copies   ──compare──▶ Scrubber, block after block
/// ```
@NullMarked
package millrace.engine.resident;

import org.jspecify.annotations.NullMarked;

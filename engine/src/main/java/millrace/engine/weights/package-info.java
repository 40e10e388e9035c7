/// From files to typed views: safetensors files and their index, mapped and never copied, every length checked against
/// the real file before anything is allocated, every byte hashed as it was mapped.
///
/// All input here is hostile until it is checked. A refusal is an `InvalidModelException` with a stable code.
@NullMarked
package millrace.engine.weights;

import org.jspecify.annotations.NullMarked;

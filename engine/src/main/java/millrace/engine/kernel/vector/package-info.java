/// The inner loops on the Vector API. The only package that names `jdk.incubator.vector`; it is loaded only if that
/// module is there.
///
/// The compiler sets the shape of this code. It stops inlining when a method has grown too large in its intermediate
/// form, then keeps vectors on the heap and the loop is ten to forty times slower, without a word. So: one loop in a
/// method, at most 16 multiply-adds in its body, and kernels above 325 bytes of bytecode, which are not inlined into
/// their callers.
@NullMarked
package millrace.engine.kernel.vector;

import org.jspecify.annotations.NullMarked;

/// The auditor's program: reads the topics of a cluster and tells whether the audit log holds. The only package of the
/// module that knows Kafka; what it finds out is decided by the pure classes of `millrace.integrity`.
@NullMarked
package millrace.integrity.audit;

import org.jspecify.annotations.NullMarked;

package millrace.streams.console;

import millrace.integrity.Digest;
import millrace.schemas.AttestationRecord;

/// One leaf of the audit log, committed, as the console shows it.
///
/// @param number counts the rows of one run of the process, from 1
/// @param fingerprint of the schema that the body was written with
/// @param body the leaf's bytes, as they are hashed
/// @param provable whether its log's window knows all that a proof needs
record AuditRow(long number, AttestationRecord leaf, Digest hash, Digest fingerprint, byte[] body, boolean provable) {}

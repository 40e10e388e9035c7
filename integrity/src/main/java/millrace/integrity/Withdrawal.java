package millrace.integrity;

import millrace.integrity.Verdict.Place;
import millrace.schemas.AuditEvent;

/// Leaves that a later leaf withdraws or puts in doubt.
///
/// @param event `RETRACT`, or `FAULT` or `CANARY` for answers that may have been computed with what was found damaged
/// @param origin of the log that the leaves are in
/// @param fromSeq index of the first
/// @param toSeq index of the last
/// @param reason a code: `WEIGHT`, `KV_PAGE`, `COMPUTE`, `CANARY`, `ERASURE`, `OPERATOR`
/// @param detail words of the form `name=value`; `scope=tenant` means only the leaves with the tenant_ref of the leaf at `at`
/// @param at the leaf that says so
public record Withdrawal(AuditEvent event, String origin, long fromSeq, long toSeq, String reason, String detail, Place at) {
    @Override
    public String toString() {
        return "%s leaves %d to %d of %s: %s%s (%s)".formatted(event, fromSeq, toSeq, origin, reason,
                detail.isEmpty() ? "" : ", " + detail, at);
    }
}

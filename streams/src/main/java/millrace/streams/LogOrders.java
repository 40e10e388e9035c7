package millrace.streams;

import java.util.regex.Pattern;
import millrace.integrity.IntegrityException;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Control;
import millrace.schemas.SuspectRange;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Carries out the operator's orders on one log. Each readable order leaves one leaf: what was done, or that it was refused.
final class LogOrders {
    private static final Pattern REASON = Pattern.compile("[A-Z][A-Z0-9_]{0,63}");
    private static final Logger LOG = LoggerFactory.getLogger(LogOrders.class);

    private final LogKeeper keeper;
    private final Attestations attestations;
    private final ServiceMetrics metrics;

    /// An order that cannot be carried out.
    private static final class RefusedException extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final String code;

        RefusedException(String code, String message) {
            super(message, null, false, false);
            this.code = code;
        }
    }

    LogOrders(LogKeeper keeper, Attestations attestations, ServiceMetrics metrics) {
        this.keeper = keeper;
        this.attestations = attestations;
        this.metrics = metrics;
    }

    void carryOut(Outcome.Ordered order, long nowMs) {
        Control control = order.control();
        try {
            switch (control.getKind()) {
                case ERASE_REQUEST -> eraseRequest(order.source(), control, nowMs);
                case ERASE_TENANT -> eraseTenant(order.source(), control, nowMs);
                case RETRACT -> retract(order.source(), control, nowMs);
                case NEW_EPOCH -> newEpoch(order.source(), control, nowMs);
                case CANCEL -> throw new RefusedException("CONTROL_KIND", "kind: expected an order of the operator, got CANCEL; write it"
                        + " to the cancels topic, with the key of the prompt");
                case UNKNOWN -> throw new RefusedException("CONTROL_KIND", "kind: expected one that this release knows");
            }
            metrics.control("done");
            LOG.info("order {}: {}: carried out", order.source().position(), control.getKind());
        } catch (RefusedException e) {
            metrics.control("refused");
            LOG.warn("order {}: {}: refused: {}: {}", order.source().position(), control.getKind(), e.code, e.getMessage());
            keeper.leaf(attestations.event(keeper.state(), order.source(), AuditEvent.REFUSED, nowMs)
                    .setErrorCode(e.code)
                    .setVerdict(AuditVerdict.REFUSED)
                    .build());
        }
    }

    private void eraseRequest(Source source, Control control, long nowMs) {
        checkRange(control);
        if (control.getFromSeq() != control.getToSeq()) {
            throw new RefusedException("CONTROL_RANGE", "from_seq and to_seq: expected one leaf, got " + control.getFromSeq() + " to "
                    + control.getToSeq());
        }
        keeper.eraseSalt(control.getOrigin(), control.getFromSeq());
        keeper.leaf(retraction(source, nowMs, "request",
                new SuspectRange(control.getOrigin(), control.getFromSeq(), control.getToSeq(), "ERASURE"))
                .setRequestId(Intake.presentable(control.getRequestId()))
                .build());
    }

    private void eraseTenant(Source source, Control control, long nowMs) {
        String tenant = control.getTenant();
        if (tenant == null || !tenant.isEmpty() && !Intake.isTenant(tenant)) {
            throw new RefusedException("CONTROL_TENANT", "tenant: expected 1 to 64 characters of A-Z a-z 0-9 . _ : -, or an empty text");
        }
        int keys = keeper.eraseTenant(tenant);
        TreeState log = keeper.state();
        keeper.leaf(retraction(source, nowMs, "tenant", new SuspectRange(log.origin().text(), 0L, log.size() - 1, "ERASURE"))
                .setTenantRef(attestations.tenant(tenant))
                .build());
        LOG.info("order {}: {} keys of a tenant were destroyed", source.position(), keys);
    }

    private void retract(Source source, Control control, long nowMs) {
        checkRange(control);
        if (!REASON.matcher(control.getReason()).matches()) {
            throw new RefusedException("CONTROL_REASON", "reason: expected a code of 1 to 64 characters of A-Z 0-9 _");
        }
        keeper.leaf(retraction(source, nowMs, "range",
                new SuspectRange(control.getOrigin(), control.getFromSeq(), control.getToSeq(), control.getReason())).build());
    }

    private void newEpoch(Source source, Control control, long nowMs) {
        TreeState log = keeper.state();
        if (!control.getOrigin().equals(log.origin().text())) {
            throw new RefusedException("CONTROL_ORIGIN", "origin: expected " + log.origin() + ", the log that is written now");
        }
        String reason = control.getReason();
        if (!reason.equals("OPERATOR") && !reason.equals("PARTITIONS_CHANGED")) {
            throw new RefusedException("CONTROL_REASON", "reason: expected OPERATOR or PARTITIONS_CHANGED");
        }
        if (!keeper.newEpoch(source, reason, nowMs)) {
            throw new RefusedException("CONTROL_UNSIGNED", "log " + log.origin() + ": expected its end to be signed, but the signer fails;"
                    + " give the order again when it works");
        }
    }

    private AttestationRecord.Builder retraction(Source source, long nowMs, String scope, SuspectRange range) {
        return attestations.event(keeper.state(), source, AuditEvent.RETRACT, nowMs).setSuspect(range).setDetail("scope=" + scope);
    }

    /// Refuses leaves that are not of this partition, or not there.
    private void checkRange(Control control) {
        Origin own = keeper.state().origin();
        Origin named;
        try {
            named = Origin.parse(control.getOrigin());
        } catch (IntegrityException e) {
            throw new RefusedException("CONTROL_ORIGIN", "origin: expected domain/cluster/topic/partition/epoch");
        }
        if (!named.prefix().equals(own.prefix()) || named.partition() != own.partition() || named.epoch() > own.epoch()) {
            throw new RefusedException("CONTROL_ORIGIN", "origin: expected " + own + " or an earlier epoch of it, got " + named
                    + "; write the order to the partition of the log");
        }
        long from = control.getFromSeq();
        long to = control.getToSeq();
        boolean there = named.epoch() < own.epoch() || to < keeper.state().size();
        if (from < 0 || from > to || !there) {
            throw new RefusedException("CONTROL_RANGE", "from_seq and to_seq: expected 0 to at most the last leaf, "
                    + (keeper.state().size() - 1) + ", in order, got " + from + " to " + to);
        }
    }
}

package millrace.streams.gateway;

import java.util.HexFormat;
import millrace.schemas.AuditPosition;

/// Where an answer stands in the audit log, as the value of a header.
final class Audit {
    static final String HEADER = "Millrace-Audit";

    private Audit() {}

    static String value(AuditPosition at) {
        return "origin=" + at.getOrigin() + "; partition=" + at.getPartition() + "; seq=" + at.getSeq() + "; leaf="
                + HexFormat.of().formatHex(at.getLeaf().bytes());
    }
}

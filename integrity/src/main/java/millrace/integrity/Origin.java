package millrace.integrity;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Name of one log: `domain/cluster/topic/partition/epoch`. One partition of the audit topic and one epoch is one log
/// with one writer.
///
/// @param domain who runs the service: a DNS name, or any word of `A-Z a-z 0-9 . _ -`
/// @param cluster id of the Kafka cluster that the log was written to
/// @param topic the audit topic
/// @param partition its partition, from 0
/// @param epoch from 0; a new epoch begins a new log
public record Origin(String domain, String cluster, String topic, int partition, int epoch) {
    private static final String WORD = "[A-Za-z0-9._-]{1,249}";
    private static final Pattern FORM =
            Pattern.compile("(%1$s)/(%1$s)/(%1$s)/(0|[1-9][0-9]{0,8})/(0|[1-9][0-9]{0,8})".formatted(WORD));
    private static final Pattern PART = Pattern.compile(WORD);

    public Origin {
        check("domain", domain);
        check("cluster", cluster);
        check("topic", topic);
        if (partition < 0 || epoch < 0) {
            throw new IntegrityException("ORIGIN_INVALID",
                    "origin: expected partition and epoch of at least 0, got %d and %d".formatted(partition, epoch));
        }
    }

    /// @throws IntegrityException code `ORIGIN_INVALID` if the text does not have the form
    public static Origin parse(String text) {
        Matcher matcher = FORM.matcher(text);
        if (!matcher.matches()) {
            throw new IntegrityException("ORIGIN_INVALID",
                    "origin: expected domain/cluster/topic/partition/epoch, got \"%s\"".formatted(Shown.text(text)));
        }
        return new Origin(matcher.group(1), matcher.group(2), matcher.group(3),
                Integer.parseInt(matcher.group(4)), Integer.parseInt(matcher.group(5)));
    }

    private static void check(String what, String word) {
        if (!PART.matcher(word).matches()) {
            throw new IntegrityException("ORIGIN_INVALID",
                    "origin: %s: expected 1 to 249 characters of A-Z a-z 0-9 . _ -, got \"%s\""
                            .formatted(what, Shown.text(word)));
        }
    }

    /// The log that follows this one on the same partition.
    public Origin nextEpoch() {
        return new Origin(domain, cluster, topic, partition, epoch + 1);
    }

    /// What all logs of one audit topic share.
    public String prefix() {
        return domain + "/" + cluster + "/" + topic;
    }

    public String text() {
        return prefix() + "/" + partition + "/" + epoch;
    }

    @Override
    public String toString() {
        return text();
    }
}

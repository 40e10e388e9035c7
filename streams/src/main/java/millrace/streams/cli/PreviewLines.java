package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.streams.client.DeltaListener;
import millrace.streams.client.PreviewOrder;
import org.jspecify.annotations.Nullable;

/// Previews of many requests as lines: each line says whose it is, and the lines of one request follow the order of its generation.
///
/// What is missing and what is void has a line of its own. Of the requests that were heard of longest ago only so many are remembered;
/// one that is heard of again after that begins anew, with a gap.
final class PreviewLines {
    private static final ObjectMapper JSON = new ObjectMapper();

    /// A request, which is known by its tenant and its id.
    private record Name(@Nullable String tenant, String id) {}

    private final boolean json;
    private final Consumer<String> out;
    private final Map<Name, PreviewOrder> orders;
    private long ended;

    /// @param most how many requests are remembered
    PreviewLines(boolean json, int most, Consumer<String> out) {
        this.json = json;
        this.out = out;
        orders = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1L;

            @Override
            protected boolean removeEldestEntry(Map.Entry<Name, PreviewOrder> eldest) {
                return size() > most;
            }
        };
    }

    /// Takes a delta as it was read.
    void take(Delta delta) {
        orders.computeIfAbsent(new Name(delta.getTenant(), delta.getRequestId()), name -> new PreviewOrder())
                .take(delta, new DeltaListener() {
                    @Override
                    public void onDelta(Delta next) {
                        line(next);
                    }

                    @Override
                    public void onRestart() {
                        write(delta, "RESTART", null, 0);
                    }

                    @Override
                    public void onGap(long count) {
                        write(delta, "GAP", null, count);
                    }
                });
    }

    /// How many generations have ended, as their previews say.
    long ended() {
        return ended;
    }

    private void line(Delta delta) {
        if (delta.getKind() == DeltaKind.END) {
            ended++;
        }
        write(delta, delta.getKind().name(), delta, 0);
    }

    /// @param what the delta to show; null for a gap and a restart, which show where they are found only
    private void write(Delta at, String kind, @Nullable Delta what, long lost) {
        if (json) {
            out.accept(object(at, kind, what, lost));
            return;
        }
        String text = "";
        if (kind.equals("GAP")) {
            text = Long.toString(lost);
        } else if (what != null && what.getToolCall() != null) {
            text = what.getToolCall().getName() + "(" + what.getToolCall().getArguments() + ")";
        } else if (what != null) {
            text = what.getText();
        }
        out.accept(at.getRequestId() + "\t" + kind + "\t" + ConsumeCommand.escaped(text));
    }

    private static String object(Delta at, String kind, @Nullable Delta what, long lost) {
        ObjectNode node = JSON.createObjectNode().put("request_id", at.getRequestId());
        if (at.getTenant() != null) {
            node.put("tenant", at.getTenant());
        }
        node.put("attempt", at.getAttempt()).put("kind", kind);
        if (kind.equals("GAP")) {
            node.put("lost", lost);
        }
        if (what != null) {
            node.put("seq", what.getSeq()).put("text", what.getText());
            if (what.getToolCall() != null) {
                node.putObject("tool_call").put("id", what.getToolCall().getId()).put("name", what.getToolCall().getName())
                        .put("arguments", what.getToolCall().getArguments());
            }
            node.put("tokens", what.getTokens()).put("sampled_us", what.getSampledUs());
        }
        try {
            return JSON.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of text and numbers can be written", e);
        }
    }
}

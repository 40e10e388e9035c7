package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.Reply;
import millrace.schemas.ToolCall;
import millrace.streams.openai.Answers;
import millrace.streams.openai.Json;

/// One answer of a stream: what was sent of it, so that previews of a second attempt say nothing twice, and the attested
/// completion ends it.
///
/// What was sent cannot be taken back. As an answer is a function of its prompt and its seed, a second attempt says the same
/// again, and is passed over as far as it was sent. Should it not, or should previews be lost, nothing more of them is
/// sent: the completion decides. If it continues what was sent, the rest follows; if it contradicts it, the stream fails.
final class ChoiceStream {
    private final boolean text;
    private final StringBuilder content = new StringBuilder();
    private final StringBuilder reasoning = new StringBuilder();
    private final List<ToolCall> calls = new ArrayList<>();
    /// How much the attempt at hand has said.
    private int saidContent;
    private int saidReasoning;
    private int saidCalls;
    private boolean silent;

    /// @param text whether it is a text completion and no conversation
    ChoiceStream(boolean text) {
        this.text = text;
    }

    /// The attempt begins again.
    void restart() {
        saidContent = 0;
        saidReasoning = 0;
        saidCalls = 0;
        silent = false;
    }

    /// Previews are missing: what follows has no place.
    void gap() {
        silent = true;
    }

    /// What a preview adds to what was sent, as deltas of the interface.
    List<ObjectNode> preview(Delta delta) {
        if (silent) {
            return List.of();
        }
        return switch (delta.getKind()) {
            case CONTENT -> {
                saidContent += delta.getText().length();
                yield more("content", content, saidContent, delta.getText());
            }
            case REASONING -> {
                saidReasoning += delta.getText().length();
                yield more("reasoning_content", reasoning, saidReasoning, delta.getText());
            }
            case TOOL_CALL -> {
                ToolCall call = delta.getToolCall();
                yield call == null ? List.of() : more(call);
            }
            case RESTART -> {
                restart();
                yield List.of();
            }
            case END, UNKNOWN -> List.of();
        };
    }

    private List<ObjectNode> more(ToolCall call) {
        saidCalls++;
        if (saidCalls > calls.size()) {
            return List.of(call(call));
        }
        silent = !calls.get(saidCalls - 1).equals(call);
        return List.of();
    }

    private List<ObjectNode> more(String field, StringBuilder sent, int said, String last) {
        int begin = said - last.length();
        int overlap = Math.min(Math.max(0, sent.length() - begin), last.length());
        if (begin > sent.length() || !sent.substring(Math.min(begin, sent.length()), begin + overlap).equals(last.substring(0, overlap))) {
            silent = true;
            return List.of();
        }
        String rest = last.substring(overlap);
        if (rest.isEmpty()) {
            return List.of();
        }
        sent.append(rest);
        return List.of(delta(field, rest));
    }

    private static ObjectNode delta(String field, String value) {
        return Json.object().put(field, value);
    }

    private ObjectNode call(ToolCall call) {
        ObjectNode node = Json.object();
        node.putArray("tool_calls").add(Answers.call(call).put("index", calls.size()));
        calls.add(call);
        return node;
    }

    /// Whether the completion says what was sent, or goes on from it.
    boolean agrees(Completion completion) {
        Reply reply = text ? null : completion.getReply();
        if (reply == null) {
            return completion.getText().startsWith(content.toString()) && reasoning.isEmpty() && calls.isEmpty();
        }
        String attested = reply.getReasoningContent() == null ? "" : reply.getReasoningContent();
        return reply.getContent().startsWith(content.toString()) && attested.startsWith(reasoning.toString())
                && calls.size() <= reply.getToolCalls().size() && calls.equals(reply.getToolCalls().subList(0, calls.size()));
    }

    /// What the completion has beyond what was sent.
    List<ObjectNode> rest(Completion completion) {
        Reply reply = text ? null : completion.getReply();
        List<ObjectNode> rest = new ArrayList<>();
        String attested = reply == null || reply.getReasoningContent() == null ? "" : reply.getReasoningContent();
        if (attested.length() > reasoning.length()) {
            rest.add(delta("reasoning_content", attested.substring(reasoning.length())));
        }
        String whole = reply == null ? completion.getText() : reply.getContent();
        if (whole.length() > content.length()) {
            rest.add(delta("content", whole.substring(content.length())));
        }
        if (reply != null) {
            List<ToolCall> all = reply.getToolCalls();
            for (int i = calls.size(); i < all.size(); i++) {
                rest.add(call(all.get(i)));
            }
        }
        return rest;
    }
}

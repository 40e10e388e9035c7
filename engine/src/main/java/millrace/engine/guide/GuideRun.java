package millrace.engine.guide;

import java.util.Arrays;
import java.util.Map;
import millrace.engine.tokenizer.Reasoning;
import org.jspecify.annotations.Nullable;

/// How far one completion has come in its form. A function of the form and the tokens so far, and of nothing else.
public final class GuideRun {
    private final Guide guide;
    private final States states;
    private final GuideTokens tokens;
    private final MaskTable masks;
    private final Reasoning reasoning;
    private @Nullable Frame top;

    GuideRun(Guide guide, States states, GuideTokens tokens, MaskTable masks, Reasoning reasoning) {
        this.guide = guide;
        this.states = states;
        this.tokens = tokens;
        this.masks = masks;
        this.reasoning = reasoning;
        restart();
    }

    /// Goes back to before the first token.
    public void restart() {
        State start = states.start(guide.document().start(reasoning));
        top = new Frame(start, null, Guide.MAX_DEPTH, null, null);
    }

    /// The logits of tokens that may come next, and −∞ for all others; valid until the next call for any run.
    ///
    /// @param logits `logits[offset … offset + vocabulary)`
    /// @return null if no token may come
    /// @throws GuideLimitException if the document leads to more alternatives than are followed
    public float @Nullable [] masked(float[] logits, int offset) {
        long[] allowed = allowed();
        float[] out = masks.scratch();
        boolean any = false;
        for (int word = 0; word < allowed.length; word++) {
            int from = word << 6;
            int to = Math.min(from + 64, out.length);
            long left = allowed[word];
            any |= left != 0;
            if (left == -1) {
                System.arraycopy(logits, offset + from, out, from, to - from);
                continue;
            }
            Arrays.fill(out, from, to, Float.NEGATIVE_INFINITY);
            for (; left != 0; left &= left - 1) {
                int id = from + Long.numberOfTrailingZeros(left);
                out[id] = logits[offset + id];
            }
        }
        return any ? out : null;
    }

    /// As above, behind `count` tokens from `tokens[from]` on that are not taken; also null if they may not come, or end it.
    public float @Nullable [] masked(float[] logits, int offset, int[] tokens, int from, int count) {
        Frame taken = top;
        try {
            for (int i = 0; i < count; i++) {
                if (!advance(tokens[from + i]) || closed()) {
                    return null;
                }
            }
            return masked(logits, offset);
        } finally {
            top = taken;
        }
    }

    /// The tokens that may come next, 64 to a word; valid until the next call.
    long[] allowed() {
        Frame at = top;
        long[] bits = masks.bits();
        Arrays.fill(bits, 0);
        if (at == null) {
            return bits;
        }
        if (!closed()) {
            masks.mark(at, states.horizon(), bits);
            for (Map.Entry<Integer, byte[]> marker : tokens.markers().entrySet()) {
                if (at.state().marked(marker.getValue()) && after(at, marker.getValue()) != null) {
                    set(bits, marker.getKey());
                }
            }
        }
        if (at.complete()) {
            for (int id : tokens.stopTokens()) {
                set(bits, id);
            }
        }
        return bits;
    }

    private static void set(long[] bits, int id) {
        bits[id >>> 6] |= 1L << id;
    }

    /// Goes on with a token that does not end the completion.
    ///
    /// @return false if it may not come; then nothing may, until [#restart]
    /// @throws GuideLimitException if the document leads to more alternatives than are followed
    public boolean advance(int token) {
        Frame at = top;
        if (at == null) {
            return false;
        }
        byte[] marker = tokens.markers().get(token);
        byte[] bytes = marker == null ? tokens.trie().bytes(token) : marker;
        boolean text = bytes.length > 0 && (marker == null || at.state().marked(marker));
        top = text ? after(at, bytes) : null;
        return top != null;
    }

    private static @Nullable Frame after(Frame from, byte[] bytes) {
        Frame frame = from;
        for (byte b : bytes) {
            Frame next = frame.step(b & 0xFF);
            frame = next == null ? null : next.settle();
            if (frame == null) {
                return null;
            }
        }
        return frame;
    }

    /// Whether the completion may end here.
    public boolean complete() {
        return top != null && top.complete();
    }

    /// Whether it must end here: the document is whole and nothing can be added.
    public boolean closed() {
        return top != null && top.up() == null && top.state().closed();
    }
}

package millrace.engine.guide;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Which tokens lead on from where a document stands.
///
/// Most tokens can be judged by the innermost value alone: "inside a string" is the same wherever the string is. So a state's tokens are
/// looked at once, by one walk over the trie, and kept: those that lead on within the value, and *ends*, the nodes at which the value is
/// over, or a key that has to be new. A mask is the kept one, and walks from the ends into the values around, which few tokens reach.
///
/// ```
///  {"a": "xy          innermost: a string          kept: all of its tokens       ends: after `"`, in `",`, `"}`, …
///                     around: an object            walked each time: what follows the quote in these
/// ```
///
/// Used by one thread.
final class MaskTable {
    /// Bytes of masks that are kept.
    private static final long MAX_BYTES = 64L << 20;

    /// A depth at which nothing is cut off, as long as a walk goes.
    private static final int FAR = 1 << 20;

    private final TokenTrie trie;
    private final StringMasks strings;
    private final StringMasks keys;
    private final int words;
    private final long[] bits;
    private final float[] scratch;
    private final Frame[] path;
    private final LinkedHashMap<Origin, Kept> kept = new LinkedHashMap<>(64, 0.75f, true);
    private long keptBytes;

    private record Origin(State state, int depthLeft) {}

    /// Where a walk cannot go on without the values around.
    ///
    /// @param frame a value that has ended there
    private record End(int node, Frame frame) {}

    /// @param bits tokens that lead on within the value
    /// @param deepest containers that a token opens, one within the other
    private record Kept(long[] bits, List<End> ends, int deepest) {
        long bytes() {
            return 8L * bits.length + 64L * ends.size();
        }
    }

    MaskTable(GuideTokens tokens, int vocabSize) {
        trie = tokens.trie();
        strings = tokens.strings();
        keys = tokens.keys();
        words = (vocabSize + 63) >>> 6;
        bits = new long[words];
        scratch = new float[vocabSize];
        path = new Frame[trie.longest() + 1];
    }

    /// Room for a mask; its holder may use it until the next one comes.
    long[] bits() {
        return bits;
    }

    /// Room for logits, the same.
    float[] scratch() {
        return scratch;
    }

    int masks() {
        return kept.size();
    }

    /// Marks the tokens that lead on from `top`.
    ///
    /// @param horizon of the guide's states
    /// @param out all of its words are written
    void mark(Frame top, int horizon, long[] out) {
        StringRule.At string = top.state().string();
        if (string != null) {
            markString(top, string, out);
            return;
        }
        if (top.state().openKey()) {
            markKey(top, out);
            return;
        }
        Kept known = kept(top, horizon);
        System.arraycopy(known.bits, 0, out, 0, words);
        State last = null;
        Frame lastAround = null;
        for (End end : known.ends) {
            boolean same = end.frame.isBase() && !end.frame.state().otherKey() && end.frame.state() == last;
            Frame around = same ? lastAround : around(end, top);
            if (end.frame.isBase()) {
                last = end.frame.state();
                lastAround = around;
            }
            if (around != null) {
                trie.mark(end.node, out);
                below(end.node, around, out);
            }
        }
    }

    /// Inside a string, which is where most tokens of most documents are.
    private void markString(Frame top, StringRule.At string, long[] out) {
        System.arraycopy(strings.inside(string.maxLeft()), 0, out, 0, words);
        Frame ended = new Frame(top.state().ended(string), top.up(), top.depthLeft(), null, null).settle();
        if (ended == null) {
            return;
        }
        for (int i = 0; i < strings.ends(); i++) {
            if (strings.endsWithin(i, string.minLeft(), string.maxLeft())) {
                trie.mark(strings.endNode(i), out);
                below(strings.endNode(i), ended, out);
            }
        }
    }

    /// Inside a key that may be any: it matters only where it ends.
    private void markKey(Frame top, long[] out) {
        System.arraycopy(keys.inside(StringRule.UNBOUNDED), 0, out, 0, words);
        for (int i = 0; i < keys.ends(); i++) {
            int node = keys.endNode(i);
            Frame frame = top;
            for (int at = 0; frame != null && at < trie.depth(node); at++) {
                frame = frame.step(trie.pathByte(node, at));
            }
            frame = frame == null ? null : frame.settle();
            if (frame != null) {
                trie.mark(node, out);
                below(node, frame, out);
            }
        }
    }

    private Kept kept(Frame top, int horizon) {
        State state = top.state().near(trie.longest());
        Kept far = keep(new Origin(state, FAR));
        return top.depthLeft() - far.deepest >= horizon ? far : keep(new Origin(state, top.depthLeft()));
    }

    private Kept keep(Origin origin) {
        Kept known = kept.get(origin);
        if (known == null) {
            known = new Walk(origin).run();
            kept.put(origin, known);
            keptBytes += known.bytes();
            var oldest = kept.entrySet().iterator();
            while (keptBytes > MAX_BYTES && kept.size() > 1) {
                keptBytes -= oldest.next().getValue().bytes();
                oldest.remove();
            }
        }
        return known;
    }

    /// What is around the value that has ended, in the document; null if it may not end so.
    private @Nullable Frame around(End end, Frame top) {
        if (top.up() == null && end.frame.isBase()) {
            // The document itself has ended, and nothing may follow.
            return null;
        }
        Frame ended = placed(end.frame, top, end.node);
        Frame around = ended.pop();
        return around == null ? null : around.settle();
    }

    /// A frame of a walk in the document that the walk began in.
    private Frame placed(Frame frame, Frame top, int node) {
        if (!frame.isBase()) {
            Frame up = placed(java.util.Objects.requireNonNull(frame.up()), top, node);
            return new Frame(frame.state(), up, up.depthLeft() - 1, frame.key(), frame.used());
        }
        KeyText key = top.key();
        if (frame.state().otherKey()) {
            for (int at = 0; at < trie.depth(node); at++) {
                key = KeyText.of(key, trie.pathByte(node, at));
            }
        }
        return new Frame(frame.state(), top.up(), top.depthLeft(), key, top.used());
    }

    /// Marks the tokens below a node that lead on from a frame whose surroundings are known.
    private void below(int node, Frame from, long[] out) {
        path[trie.depth(node)] = from;
        int end = trie.end(node);
        int at = node + 1;
        while (at < end) {
            Frame frame = path[trie.depth(at) - 1].step(trie.label(at));
            frame = frame == null ? null : frame.settle();
            if (frame == null) {
                at = trie.end(at);
                continue;
            }
            trie.mark(at, out);
            path[trie.depth(at)] = frame;
            at++;
        }
    }

    /// A walk over all tokens from a value whose surroundings are not known.
    private final class Walk {
        private final Frame base;
        private final long[] leading = new long[words];
        private final List<End> ends = new ArrayList<>();
        private int least;

        Walk(Origin origin) {
            base = new Frame(origin.state, Frame.OUTSIDE, origin.depthLeft, null, null);
            least = origin.depthLeft;
        }

        Kept run() {
            int begun = base.depthLeft();
            path[0] = base;
            boolean inside = !base.state().outermost();
            if (inside && base.state().complete()) {
                ends.add(new End(0, base));
            }
            int at = 1;
            while (at < trie.nodes()) {
                Frame frame = path[trie.depth(at) - 1].step(trie.label(at));
                frame = frame == null ? null : settled(frame, at);
                if (frame == null) {
                    at = trie.end(at);
                    continue;
                }
                least = Math.min(least, frame.depthLeft());
                trie.mark(at, leading);
                if (frame.isBase() && frame.state().complete()) {
                    if (inside) {
                        ends.add(new End(at, frame));
                    }
                    if (frame.state().closed()) {
                        at = trie.end(at);
                        continue;
                    }
                }
                path[trie.depth(at)] = frame;
                at++;
            }
            return new Kept(leading, List.copyOf(ends), begun - least);
        }

        /// Leaves values that have ended; null where that has to wait for the document.
        private @Nullable Frame settled(Frame frame, int node) {
            Frame inner = frame;
            while (inner != null && inner.state().closed()) {
                least = Math.min(least, inner.depthLeft());
                if (inner.state().otherKey()) {
                    ends.add(new End(node, inner));
                    return null;
                }
                if (inner.isBase()) {
                    return inner;
                }
                inner = inner.pop();
            }
            return inner;
        }
    }
}

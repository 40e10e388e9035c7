package millrace.streams;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.ToolCall;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.streams.bench.NoOpEngine;

/// Answers with the prompt's last text, word by word. `slow MS` takes so many milliseconds; `call NAME JSON` is read as the
/// call of a tool.
final class EchoEngine implements TextEngine {
    private final NoOpEngine card = new NoOpEngine();
    private final AtomicInteger load = new AtomicInteger();

    @Override
    public ModelCard card() {
        return card.card();
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        return card.prepare(request);
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        AtomicBoolean cancelled = new AtomicBoolean();
        load.incrementAndGet();
        Thread.ofVirtual().start(() -> answer(prompt, listener, cancelled));
        return () -> cancelled.set(true);
    }

    private void answer(PreparedPrompt prompt, GenerationListener listener, AtomicBoolean cancelled) {
        String text = prompt.text();
        for (String word : text.split("(?<= )")) {
            listener.onDelta(word);
        }
        if (text.startsWith("slow ")) {
            long until = System.nanoTime() + Long.parseLong(text.substring(5)) * 1_000_000;
            while (System.nanoTime() < until && !cancelled.get()) {
                ClusterClient.sleep(5);
            }
        }
        load.decrementAndGet();
        Usage usage = new Usage(prompt.ids().length, 1, 0);
        listener.onEnd(new GenerationResult(text, List.of(0), cancelled.get() ? FinishReason.CANCELLED : FinishReason.STOP, usage,
                Timings.NONE, null, null, Transcript.NONE));
    }

    @Override
    public ReplyReader replies(PreparedPrompt prompt) {
        return new Calls();
    }

    private static final class Calls implements ReplyReader {
        private final StringBuilder text = new StringBuilder();
        private boolean ended;

        @Override
        public List<ReplyPart> feed(String delta) {
            text.append(delta);
            return "call ".startsWith(text.substring(0, Math.min(5, text.length()))) ? List.of() : List.of(new ReplyPart.Content(delta));
        }

        @Override
        public List<ReplyPart> end() {
            boolean again = ended;
            ended = true;
            Reply reply = reply();
            return again || reply.toolCalls().isEmpty() ? List.of() : List.of(new ReplyPart.Call(reply.toolCalls().getFirst()));
        }

        @Override
        public Reply reply() {
            String[] words = text.toString().split(" ", 3);
            return words.length == 3 && words[0].equals("call")
                    ? new Reply("", null, List.of(new ToolCall("call-1", words[1], words[2])))
                    : new Reply(text.toString(), null, List.of());
        }
    }

    @Override
    public int load() {
        return load.get();
    }

    @Override
    public void close() {
        card.close();
    }
}

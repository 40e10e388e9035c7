package millrace.streams.bench;

import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntFunction;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Timings;
import millrace.streams.client.MillraceClient;
import millrace.streams.client.PendingAnswer;
import millrace.streams.client.SendOptions;

/// Prompts for services with a paced engine, over the Java client.
///
/// @param client sends, and reads committed completions
record Load(MillraceClient client, Pace pace) {
    private static final int PATIENCE_S = 600;

    /// A prompt that was answered with all its tokens.
    ///
    /// @param sentNanos `System.nanoTime()` before it was sent
    /// @param arrivedNanos when the client had its committed completion
    /// @param engineNanos how long the engine had it, in its queue or running, as the completion's timings say
    record Answer(long sentNanos, long arrivedNanos, long engineNanos) {}

    /// Sends each prompt when it is due, whether or not earlier ones are answered, and waits for all completions.
    ///
    /// @param prefix of the request ids
    /// @param due nanoseconds from now of each prompt
    /// @param key of each prompt's record
    /// @throws IllegalStateException when one is not answered, or otherwise than the engine does
    List<Answer> send(String prefix, long[] due, IntFunction<String> key) throws InterruptedException {
        var answers = new ConcurrentLinkedQueue<Answer>();
        var failures = new ConcurrentLinkedQueue<String>();
        var open = new CountDownLatch(due.length);
        long start = System.nanoTime();
        for (int i = 0; i < due.length; i++) {
            for (long wait = start + due[i] - System.nanoTime(); wait > 0; wait = start + due[i] - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            String id = prefix + "-" + i;
            long sent = System.nanoTime();
            PendingAnswer pending = client.send(pace.prompt(id), SendOptions.DEFAULT.withKey(key.apply(i)));
            pending.completion().whenComplete((completion, problem) -> {
                long arrived = System.nanoTime();
                if (problem != null) {
                    failures.add(id + ": " + problem.getMessage());
                } else if (completion.getFinishReason() != FinishReason.stop) {
                    failures.add(id + ": finish reason " + completion.getFinishReason());
                } else {
                    answers.add(new Answer(sent, arrived, engineNanos(completion)));
                }
                open.countDown();
            });
        }
        if (!open.await(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " prompts were not answered within " + PATIENCE_S + " s");
        }
        if (!failures.isEmpty()) {
            throw new IllegalStateException(failures.size() + " prompts were not answered by the engine, such as " + failures.peek());
        }
        return List.copyOf(answers);
    }

    private static long engineNanos(Completion completion) {
        Timings timings = completion.getTimings();
        return (timings.getTimeToFirstTokenUs() + timings.getDecodeUs()) * 1_000;
    }
}

package millrace.streams;

import java.security.SecureRandom;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.function.Function;
import java.util.function.IntConsumer;
import millrace.engine.Device;
import millrace.engine.Generation;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.InvalidRequestException;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.Sampling;
import millrace.engine.TextEngine;
import millrace.engine.TraceListener;
import millrace.integrity.Buffers;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.Verdict;
import millrace.integrity.audit.AnswerReader.Answer;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.ComputeDevice;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Prompt;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// Computes answers again from their prompt records, as the service does it, and compares them with what was attested.
/// Bits do not depend on batches, threads and backend of a profile, so the answers run together, as fast as the engine can.
/// Answers of another profile, or of another kind of device, are followed token by token within a [Tolerance].
public final class Replay {
    private static final int IN_FLIGHT = 64;

    /// How one answer came out.
    ///
    /// @param tokens that were computed again
    /// @param bitExact whether bits were compared, and not what lies within a tolerance
    /// @param nearTies steps at which another token was taken, within the tolerance
    /// @param proofs activation proofs that were checked, within theirs
    public record Result(Answer answer, Verdict verdict, int tokens, boolean bitExact, int nearTies, int proofs) {
        private static Result exact(Answer answer, Verdict verdict, int tokens) {
            return new Result(answer, verdict, tokens, true, 0, 0);
        }

        private static Result within(Answer answer, TolerantComparison comparison, int tokens) {
            return new Result(answer, comparison.verdict(), tokens, false, comparison.nearTies(), comparison.proofs());
        }
    }

    /// Follows an answer that is there already, as [millrace.engine.Engine#trace].
    public interface Tracer {
        Generation trace(PreparedPrompt prompt, List<Integer> answer, TraceListener listener);
    }

    private final TextEngine engine;
    private final Tracer tracer;
    private final Function<ConsumerRecord<byte[], byte[]>, Prompt> decoder;
    private final int logitsEvery;
    private final CacheSalts salts =
            new CacheSalts(NoteSigner.generate("replay", new SecureRandom()), "");

    /// @param tracer of the same engine
    /// @param decoder reads a prompt record; throws [IntegrityException] for what is none
    /// @param logitsEvery tokens that one logits digest of the engine covers; 0 if it makes none
    public Replay(
            TextEngine engine, Tracer tracer, Function<ConsumerRecord<byte[], byte[]>, Prompt> decoder, int logitsEvery) {
        this.engine = engine;
        this.tracer = tracer;
        this.decoder = decoder;
        this.logitsEvery = logitsEvery;
    }

    /// Whether a leaf is of an answer that can be computed again.
    public static boolean isAnswer(AttestationRecord record) {
        return record.getEvent() == AuditEvent.INFERENCE && switch (record.getFinish()) {
            case stop, length, deadline, cancelled -> true;
            default -> false;
        };
    }

    /// Computes all of them again.
    ///
    /// @param done told how many have come out
    public List<Result> run(List<Answer> answers, IntConsumer done) {
        Semaphore room = new Semaphore(IN_FLIGHT);
        List<CompletableFuture<Result>> running = new ArrayList<>();
        int finished = 0;
        for (Answer answer : answers) {
            room.acquireUninterruptibly();
            running.add(start(answer).whenComplete((result, failure) -> room.release()));
            while (finished < running.size() && running.get(finished).isDone()) {
                done.accept(++finished);
            }
        }
        List<Result> results = new ArrayList<>();
        for (CompletableFuture<Result> one : running) {
            results.add(one.join());
            done.accept(results.size());
        }
        return results;
    }

    private CompletableFuture<Result> start(Answer answer) {
        Undecided obstacle = obstacle(answer);
        ConsumerRecord<byte[], byte[]> record = answer.prompt();
        Completion completion = answer.completion();
        if (obstacle != null || record == null || completion == null) {
            return CompletableFuture.completedFuture(
                    Result.exact(answer, Objects.requireNonNullElse(obstacle, missing(answer)), 0));
        }
        byte[] salt = Buffers.bytes(completion.getSalt());
        try {
            Prompt prompt = decoder.apply(record);
            PreparedPrompt prepared = prepare(answer.leaf().record(), prompt, record);
            Refuted other = comparePrompt(answer, prompt, prepared, salt);
            other = other != null ? other : compareReading(answer, completion, prepared, salt);
            if (other != null) {
                return CompletableFuture.completedFuture(Result.exact(answer, other, 0));
            }
            if (answer.leaf().record().getCompletionTokens() == 0) {
                return CompletableFuture.completedFuture(Result.exact(answer, Verdict.VERIFIED, 0));
            }
            return compute(answer, completion, bounded(answer.leaf().record(), prepared), salt);
        } catch (InvalidRequestException | IntegrityException e) {
            Refuted refuted = new Refuted("REPLAY_PROMPT", answer.name() + ": prompt record", "one that can be served",
                    String.valueOf(e.getMessage()), null);
            return CompletableFuture.completedFuture(Result.exact(answer, refuted, 0));
        }
    }

    /// Computes the answer again, or follows it where other bits must be expected.
    private CompletableFuture<Result> compute(Answer answer, Completion completion, PreparedPrompt prompt, byte[] salt) {
        AttestationRecord leaf = answer.leaf().record();
        CompletableFuture<Result> running = new CompletableFuture<>();
        Tolerance tolerance = tolerance(leaf);
        List<Integer> ids = completion.getTokenIds();
        if (tolerance == null) {
            engine.submit(prompt, result -> running.complete(
                    Result.exact(answer, compare(answer, completion, prompt, result, salt), result.tokenIds().size())));
        } else if (ids == null) {
            engine.submit(prompt, result -> running.complete(Result.within(
                    answer, TolerantComparison.of(answer, completion, result, salt), result.tokenIds().size())));
        } else {
            Comparison same = new Comparison(answer, "REPLAY_TOKENS");
            same.check("token ids of the completion", leaf.getTokenIdsCommit(), Commitment.tokenIds(salt, ids));
            if (same.first != null) {
                return CompletableFuture.completedFuture(Result.exact(answer, same.first, 0));
            }
            tracer.trace(prompt, ids, trace -> running.complete(Result.within(
                    answer, TolerantComparison.of(answer, completion, ids, trace, tolerance), trace.steps())));
        }
        return running;
    }

    /// What is allowed where this engine does not give the bits that were attested; null where it does.
    private @Nullable Tolerance tolerance(AttestationRecord record) {
        ModelCard card = engine.card();
        return Tolerance.sameBits(record, card.profile(), card.device()) ? null : Tolerance.between(record, card.profile());
    }

    /// Why the answer cannot be computed again here; null if it can.
    private @Nullable Undecided obstacle(Answer answer) {
        AttestationRecord record = answer.leaf().record();
        if (!isAnswer(record)) {
            return new Undecided("REPLAY_NOT_ANSWERED", "%s: expected an answer that ended by itself, got %s, finish reason %s"
                    .formatted(answer.name(), record.getEvent(), record.getFinish()));
        }
        ModelCard card = engine.card();
        String model = "sha256:" + Digest.of(record.getModelDigest()).hex();
        Undecided other = differs("REPLAY_MODEL", answer, "model", model, card.modelDigest());
        other = other != null ? other : differs("REPLAY_MODEL", answer, "chat format",
                Digest.of(record.getTemplateSha256()).hex(), card.templateDigest());
        boolean comparable = Tolerance.sameBits(record, card.profile(), card.device()) || tolerance(record) != null;
        other = other != null || comparable ? other
                : differs("REPLAY_PROFILE", answer, "profile", described(record), described(card.profile(), card.device()));
        other = other != null ? other : differs("REPLAY_PROFILE", answer, "sampler", record.getSampler(), Sampling.ALGORITHM);
        other = other != null ? other
                : differs("REPLAY_PROFILE", answer, "KV format (--kv)", record.getKvFormat(), card.kvFormat());
        return other != null || record.getWeightFormat().isEmpty() ? other : differs("REPLAY_PROFILE", answer,
                "weight format (--weights)", record.getWeightFormat(), card.weightFormat());
    }

    private static String described(AttestationRecord record) {
        ComputeDevice device = record.getDevice();
        return device == null ? record.getProfile() : described(record.getProfile(),
                new Device(device.getName(), device.getCapability(), device.getDriver(), "", device.getStandin()));
    }

    private static String described(String profile, Device device) {
        return device.isProcessor() ? profile : "%s on %s".formatted(profile, Intake.presentable(device.name()));
    }

    private static @Nullable Undecided differs(String code, Answer answer, String what, String attested, String here) {
        return attested.equals(here) ? null : new Undecided(code,
                "%s: %s: it was computed with %s, this engine has %s".formatted(answer.name(), what, attested, here));
    }

    private static Undecided missing(Answer answer) {
        return answer.prompt() == null
                ? new Undecided("REPLAY_PROMPT_MISSING", answer.name() + ": its prompt record is no longer in the topic")
                : new Undecided("REPLAY_COMPLETION_MISSING",
                        answer.name() + ": its completion, which has the salt, is no longer in the topic");
    }

    private PreparedPrompt prepare(AttestationRecord leaf, Prompt prompt, ConsumerRecord<byte[], byte[]> record) {
        prompt.setDeadlineMs(null); // it has passed
        Source source = new Source(record.topic(), record.partition(), record.offset(), record.timestamp(), record.key(),
                record.value(), record.headers());
        // Where the prompt left the count of tokens open, the service's default of then applied.
        var limits = new Intake.Limits(Integer.MAX_VALUE, Integer.MAX_VALUE, leaf.getMaxTokens(), false);
        return new Intake(engine, limits, salts, Clock.systemUTC()).prepare(prompt, source);
    }

    /// An answer that something from outside ended is computed as far as it came.
    private static PreparedPrompt bounded(AttestationRecord leaf, PreparedPrompt prepared) {
        if (endedItself(leaf)) {
            return prepared;
        }
        return new PreparedPrompt(
                prepared.request().withMaxNewTokens(leaf.getCompletionTokens()), prepared.text(), prepared.ids());
    }

    /// Whether the tokens say where it ends, and not its deadline or its client.
    static boolean endedItself(AttestationRecord leaf) {
        return leaf.getFinish() != FinishReason.deadline && leaf.getFinish() != FinishReason.cancelled;
    }

    /// Whether the leaf is of a time when leaves committed to response formats and replies.
    private static boolean tellsOfReplies(AttestationRecord leaf) {
        return leaf.getSchemaVersion() >= Attestations.VERSION_OF_REPLIES;
    }

    /// Reads the completion's text again: its reply must be that reading, and what was committed to. Its log probabilities
    /// are taken as they are; where this engine has the same bits they are computed again too.
    private @Nullable Refuted compareReading(Answer answer, Completion completion, PreparedPrompt prepared, byte[] salt) {
        AttestationRecord leaf = answer.leaf().record();
        Comparison same = new Comparison(answer, "REPLAY_REPLY");
        if (tellsOfReplies(leaf)) {
            boolean nothing = leaf.getCompletionTokens() == 0;
            Reply reply = nothing ? null : BesideText.reply(engine, prepared, completion.getText());
            same.check("reply and log probabilities", shown(leaf.getReplyCommit()),
                    shown(new BesideText(reply, completion.getLogprobs()).commit(salt)));
        }
        return same.first;
    }

    private static String shown(@Nullable Hash commitment) {
        return commitment == null ? "none" : Digest.of(commitment).toString();
    }

    private static @Nullable Refuted comparePrompt(Answer answer, Prompt prompt, PreparedPrompt prepared, byte[] salt) {
        AttestationRecord leaf = answer.leaf().record();
        GenerationRequest request = prepared.request();
        Sampling sampling = request.sampling();
        Comparison same = new Comparison(answer, "REPLAY_PROMPT");
        same.check("prompt", leaf.getPromptCommit(), Commitment.prompt(salt, prepared.text()));
        same.check("stop strings", leaf.getStopCommit(), Commitment.stopList(salt, request.stop()));
        same.check("prompt tokens", leaf.getPromptTokens(), prepared.ids().length);
        same.check("max_tokens", leaf.getMaxTokens(), request.maxNewTokens());
        same.check("seed", leaf.getSeed(), sampling.seed());
        same.check("temperature", leaf.getTemperatureBits(), Float.floatToRawIntBits(sampling.temperature()));
        same.check("top_p", leaf.getTopPBits(), Float.floatToRawIntBits(sampling.topP()));
        same.check("top_k", leaf.getTopK(), sampling.topK());
        same.check("min_p", leaf.getMinPBits(), Float.floatToRawIntBits(sampling.minP()));
        same.check("repetition penalty", leaf.getRepetitionPenaltyBits(),
                Float.floatToRawIntBits(sampling.repetitionPenalty()));
        if (tellsOfReplies(leaf)) {
            same.check("response format", shown(leaf.getGuideCommit()),
                    shown(Attestations.guide(request.format(), prompt.getResponseFormat(), salt)));
        }
        return same.first;
    }

    private Verdict compare(
            Answer answer, Completion completion, PreparedPrompt prompt, GenerationResult result, byte[] salt) {
        if (result.reason() == millrace.engine.FinishReason.FAILED) {
            return new Undecided("REPLAY_ENGINE", "%s: the engine failed: %s: %s"
                    .formatted(answer.name(), result.errorCode(), result.errorMessage()));
        }
        AttestationRecord leaf = answer.leaf().record();
        Comparison same = new Comparison(answer, "REPLAY_TOKENS");
        same.check("token ids" + firstOther(completion.getTokenIds(), result.tokenIds(), 1), leaf.getTokenIdsCommit(),
                Commitment.tokenIds(salt, result.tokenIds()));
        same.check("count of tokens", leaf.getCompletionTokens(), result.tokenIds().size());
        Hash logits = leaf.getLogitsCommit();
        if (logits != null && leaf.getLogitsEvery() == logitsEvery) {
            same.code = "REPLAY_LOGITS";
            same.check("logits" + firstOther(completion.getLogitsDigests(), result.transcript().logitsDigests(), logitsEvery),
                    logits, Commitment.logits(salt, result.transcript().logitsDigests()));
        }
        byte[] proofs = Proofs.of(result.transcript());
        if (leaf.getProofsCommit() != null) {
            same.code = "REPLAY_PROOFS";
            same.check("activation proofs", leaf.getProofsCommit(),
                    Commitment.proofs(salt, proofs == null ? new byte[0] : proofs));
        }
        if (endedItself(leaf)) {
            same.code = "REPLAY_TEXT";
            same.check("finish reason", leaf.getFinish(), Completions.finish(result.reason()));
            same.check("text", leaf.getCompletionCommit(), Commitment.completion(salt, result.text()));
        }
        if (tellsOfReplies(leaf)) {
            // The reading of the text was compared; what remains is what stands for the logits.
            BesideText again = BesideText.of(engine, prompt, result);
            same.code = "REPLAY_REPLY";
            same.check("log probabilities" + firstOther(completion.getLogprobs(), again.logprobs()), shown(leaf.getReplyCommit()),
                    shown(new BesideText(completion.getReply(), again.logprobs()).commit(salt)));
        }
        return same.first == null ? Verdict.VERIFIED : same.first;
    }

    /// Where two lists part, for a message.
    ///
    /// @param every steps that one item stands for
    private static String firstOther(@Nullable List<Integer> attested, List<Integer> again, int every) {
        if (attested == null) {
            return "";
        }
        int at = 0;
        while (at < attested.size() && at < again.size() && attested.get(at).equals(again.get(at))) {
            at++;
        }
        return every == 1 ? ", first at step %d: %s, now %s".formatted(at, item(attested, at), item(again, at))
                : ", first in steps %d to %d".formatted(at * every, at * every + every - 1);
    }

    private static String firstOther(@Nullable List<TokenLogprob> attested, @Nullable List<TokenLogprob> again) {
        int at = 0;
        while (attested != null && again != null && at < attested.size() && at < again.size()
                && attested.get(at).equals(again.get(at))) {
            at++;
        }
        return attested == null ? "" : ", first at step " + at;
    }

    private static String item(List<Integer> items, int at) {
        return at < items.size() ? items.get(at).toString() : "the end";
    }

    /// The first of some comparisons that failed.
    private static final class Comparison {
        final Answer answer;
        String code;
        @Nullable Refuted first;

        Comparison(Answer answer, String code) {
            this.answer = answer;
            this.code = code;
        }

        void check(String what, Object attested, Object again) {
            Object shown = attested instanceof Hash hash ? Digest.of(hash) : attested;
            if (first == null && !shown.equals(again)) {
                first = new Refuted(code, "%s, request %s: %s".formatted(
                        answer.name(), Intake.presentable(answer.leaf().record().getRequestId()), what),
                        shown.toString(), again.toString(), answer.leaf().place());
            }
        }
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import millrace.engine.InvalidRequestException;
import millrace.engine.TextCodec;
import millrace.integrity.Buffers;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.ReplyForm;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.WireReader;
import millrace.integrity.audit.AnswerReader;
import millrace.integrity.audit.AnswerReader.Answer;
import millrace.integrity.audit.AnswerReader.Selection;
import millrace.integrity.audit.AuditOptions;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.Hash;
import millrace.schemas.Prompt;
import millrace.schemas.Schemas;
import millrace.streams.PromptText;
import millrace.streams.ServiceConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit open`: shows what a leaf commits to, for who holds the salt.
@Command(
        name = "open",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Opens the commitments of an answer's leaf: takes the salt, and says of prompt, completion, token ids, stop",
            "strings and logits digests, as they are in the topics, which are what was committed to. Content is never",
            "printed."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit open --key log.pub --request-id r-17",
            "  millrace audit open --key log.pub --partition 0 --seq 1234 --salt <64 hex digits>",
            "  millrace audit open --key log.pub --request-id r-17 --model DIR",
            "",
            "Exit codes: 0 all that is here opens, 1 something does not, 2 nothing to open, 3 usage or input/output."
        })
final class AuditOpenCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--request-id", paramLabel = "ID", description = "The answer to this request.")
    @Nullable String requestId;

    @Option(names = "--partition", paramLabel = "N", description = "Partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--seq", paramLabel = "N", description = "The leaf by its seq; with --partition.")
    @Nullable Long seq;

    @Option(names = "--salt", paramLabel = "HEX", description = "The salt, 64 hex digits (default: that in the completion).")
    @Nullable String salt;

    @Option(names = "--model", paramLabel = "DIR",
            description = "The model's directory, for its chat format: only with it the prompt of a conversation can be told.")
    @Nullable String model;

    @Option(names = "--completions-topic", paramLabel = "TOPIC",
            description = "Topic of the completions (default: topics.completions).")
    @Nullable String completionsTopic;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    /// One commitment of a leaf.
    ///
    /// @param opens null where there is nothing to compare with, or no salt
    private record Item(String what, @Nullable Boolean opens, String why) {}

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditOpenCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> open(console));
    }

    private int open(AuditConsole console) throws IOException {
        if (requestId == null && (seq == null || partition == null)) {
            throw new IllegalArgumentException("open: expected --request-id, or --partition and --seq");
        }
        ServiceConfig config = log.client.load();
        AuditOptions options = log.options(config,
                completionsTopic == null ? config.string("topics.completions") : completionsTopic, partition,
                Duration.ZERO, null);
        AnswerReader.Read read = AnswerReader.read(options, new Selection(this::isWanted, 0, 0), console.progress());
        Refuted violation = read.log().violation();
        if (violation != null) {
            return console.end("the log", violation, AuditConsole.object());
        }
        if (read.answers().isEmpty()) {
            return console.end("open", new Undecided("OPEN_NOT_FOUND", "no such leaf in " + options.topic()),
                    AuditConsole.object());
        }
        Verdict verdict = Verdict.VERIFIED;
        ObjectNode fields = AuditConsole.object();
        var list = fields.putArray("answers");
        for (Answer answer : read.answers()) {
            List<Item> items = items(answer, config.chatFormat());
            Verdict ofAnswer = verdict(answer, items);
            verdict = verdict instanceof Refuted || ofAnswer.ok() ? verdict : ofAnswer;
            if (json) {
                describe(list.addObject(), answer, items);
            } else {
                console.say("%s, request %s".formatted(answer.name(), answer.leaf().record().getRequestId()));
                items.forEach(item -> console.say("  %-14s %s%s".formatted(item.what,
                        item.opens == null ? "not here" : item.opens ? "opens" : "DOES NOT OPEN",
                        item.why.isEmpty() ? "" : ": " + item.why)));
            }
        }
        return console.end("open", verdict, fields);
    }

    private boolean isWanted(Checked leaf) {
        AttestationRecord record = leaf.record();
        boolean answer = record.getEvent() == AuditEvent.INFERENCE || record.getEvent() == AuditEvent.REFUSED;
        return answer && (requestId == null || record.getRequestId().equals(requestId))
                && (seq == null || record.getSeq() == seq);
    }

    private static Verdict verdict(Answer answer, List<Item> items) {
        for (Item item : items) {
            if (Boolean.FALSE.equals(item.opens)) {
                return new Refuted("OPEN_COMMITMENT", "%s: %s".formatted(answer.name(), item.what), "what was committed to",
                        "something else", answer.leaf().place());
            }
        }
        return items.stream().anyMatch(item -> Boolean.TRUE.equals(item.opens)) ? Verdict.VERIFIED
                : new Undecided("OPEN_NOTHING", answer.name()
                        + ": neither salt nor content is here any more; give --salt if you have it");
    }

    private static void describe(ObjectNode line, Answer answer, List<Item> items) {
        AttestationRecord record = answer.leaf().record();
        line.put("origin", record.getLogOrigin()).put("seq", record.getSeq()).put("request_id", record.getRequestId());
        ObjectNode opened = line.putObject("commitments");
        items.forEach(item -> opened.put(item.what.replace(' ', '_'),
                item.opens == null ? "not_here" : item.opens ? "opens" : "does_not_open"));
    }

    private List<Item> items(Answer answer, @Nullable String chatFormat) {
        AttestationRecord leaf = answer.leaf().record();
        Completion completion = answer.completion();
        byte[] key = salt(completion);
        List<Item> items = new ArrayList<>();
        ConsumerRecord<byte[], byte[]> record = answer.prompt();
        if (leaf.getEvent() == AuditEvent.REFUSED) {
            byte[] value = record == null || record.value() == null ? new byte[0] : record.value();
            items.add(item("record", leaf.getPromptCommit(), key, record != null, () -> Commitment.record(key(key), value)));
        } else {
            prompt(items, answer, key, chatFormat);
        }
        boolean here = completion != null;
        String text = completion == null ? "" : completion.getText();
        items.add(item("completion", leaf.getCompletionCommit(), key, here, () -> Commitment.completion(key(key), text)));
        List<Integer> ids = completion == null ? null : completion.getTokenIds();
        items.add(item("token ids", leaf.getTokenIdsCommit(), key, ids != null,
                () -> Commitment.tokenIds(key(key), ids == null ? List.of() : ids)));
        Hash logits = leaf.getLogitsCommit();
        List<Integer> digests = completion == null ? null : completion.getLogitsDigests();
        if (logits != null) {
            items.add(item("logits", logits, key, digests != null,
                    () -> Commitment.logits(key(key), digests == null ? List.of() : digests)));
        }
        if (leaf.getReplyCommit() != null) {
            items.add(completion == null ? new Item("reply", null, "")
                    : reply(leaf.getReplyCommit(), key, completion));
        }
        return items;
    }

    private static Item reply(Hash commitment, byte @Nullable [] key, Completion completion) {
        Digest made = ReplyForm.commit(key(key), completion);
        return made == null && key != null ? new Item("reply", false, "the completion has none")
                : item("reply", commitment, key, true, () -> Objects.requireNonNull(made));
    }

    private void prompt(
            List<Item> items, Answer answer, byte @Nullable [] key, @Nullable String chatFormat) {
        AttestationRecord leaf = answer.leaf().record();
        ConsumerRecord<byte[], byte[]> record = answer.prompt();
        Prompt prompt = record == null ? null : readable(record.value());
        if (prompt == null) {
            items.add(new Item("prompt", null,
                    record == null ? "its record is no longer in the topic" : "its record cannot be read"));
            items.add(new Item("stop strings", null, ""));
            return;
        }
        List<String> stop = prompt.getSampling() == null ? List.of() : prompt.getSampling().getStop();
        if (model == null && PromptText.needsModel(prompt)) {
            items.add(new Item("prompt", null, "a chat format or tokenizer made it: give --model"));
        } else {
            String text = text(prompt, chatFormat);
            items.add(text == null ? new Item("prompt", false, "this model cannot render it")
                    : item("prompt", leaf.getPromptCommit(), key, true, () -> Commitment.prompt(key(key), text)));
        }
        items.add(item("stop strings", leaf.getStopCommit(), key, true, () -> Commitment.stopList(key(key), stop)));
        if (leaf.getGuideCommit() != null) {
            String form = PromptText.guide(prompt);
            items.add(item("response format", leaf.getGuideCommit(), key, true, () -> Commitment.guide(key(key), form)));
        }
    }

    private @Nullable String text(Prompt prompt, @Nullable String chatFormat) {
        if (!PromptText.needsModel(prompt) || model == null) {
            return prompt.getPrompt();
        }
        try (LocalModel local = LocalModel.of(model)) {
            return PromptText.of(prompt, TextCodec.open(local.directory(), chatFormat));
        } catch (InvalidRequestException notRenderable) {
            return null;
        }
    }

    private static @Nullable Prompt readable(byte @Nullable [] value) {
        try {
            return new WireReader<Prompt>(Schemas.PROMPT, null).read(value).record();
        } catch (IntegrityException notOne) {
            return null;
        }
    }

    private byte @Nullable [] salt(@Nullable Completion completion) {
        if (salt != null) {
            if (!salt.matches("[0-9a-f]{64}")) {
                throw new IllegalArgumentException("--salt: expected 64 hex digits, got " + salt.length() + " characters");
            }
            return HexFormat.of().parseHex(salt);
        }
        if (completion == null || completion.getSalt().remaining() != Commitment.SALT_BYTES) {
            return null;
        }
        return Buffers.bytes(completion.getSalt());
    }

    /// The salt where an item is computed at all.
    private static byte[] key(byte @Nullable [] key) {
        return key == null ? new byte[Commitment.SALT_BYTES] : key;
    }

    private static Item item(String what, Hash commitment, byte @Nullable [] key, boolean here, Supplier<Digest> made) {
        if (key == null) {
            return new Item(what, null, "no salt");
        }
        return here ? new Item(what, made.get().matches(commitment), "") : new Item(what, null, "");
    }
}

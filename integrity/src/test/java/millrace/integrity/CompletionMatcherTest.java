package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.Consumer;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Schemas;
import millrace.schemas.TokenLogprob;
import org.junit.jupiter.api.Test;

class CompletionMatcherTest {
    private final TestLog log = new TestLog(0);
    private final CompletionMatcher matcher = new CompletionMatcher(TestLog.COMPLETIONS, null);

    private static Place place(long offset) {
        return new Place(TestLog.COMPLETIONS, 0, offset);
    }

    private void completions() {
        for (int i = 0; i < log.completions.size(); i++) {
            matcher.completion(place(i), log.completions.get(i), null);
        }
    }

    private void leaves() {
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null);
        for (int i = 0; i < log.leaves.size(); i++) {
            LogVerifier.Checked leaf = verifier.leaf(0, i, log.leaves.get(i));
            assertThat(leaf).as("leaf %d", i).isNotNull();
            matcher.leaf(leaf);
        }
    }

    private void change(int index, Consumer<Completion> change) {
        Completion completion = new WireReader<Completion>(Schemas.COMPLETION, null)
                .read(log.completions.get(index)).record();
        change.accept(completion);
        log.completions.set(index, TestLog.wire(completion));
    }

    @Test
    void matchesInEitherOrder() {
        log.add(5);
        completions();
        assertThat(matcher.waiting()).isEqualTo(5);
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.matched()).isEqualTo(5);
        CompletionMatcher other = new CompletionMatcher(TestLog.COMPLETIONS, null);
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null);
        log.leaves.forEach(leaf -> other.leaf(verifier.leaf(0, verifier.leaves(), leaf)));
        log.completions.forEach(completion -> other.completion(place(0), completion, null));
        assertThat(other.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void matchesCompletionsWithoutTokenIdsAndRefusals() {
        log.add().add(record -> {
            record.setEvent(AuditEvent.REFUSED);
            record.setFinish(FinishReason.rejected);
            record.setErrorCode("PROMPT_EMPTY");
        });
        change(0, completion -> completion.setTokenIds(null));
        change(1, completion -> completion.setErrorCode("PROMPT_EMPTY"));
        completions();
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void expectsNoCompletionForWhatWasAnsweredElsewhere() {
        log.add().add(record -> {
            record.setEvent(AuditEvent.REFUSED);
            record.setOutTopic("millrace.dlq");
        }).nextEpoch(record -> {});
        log.completions.removeLast();
        completions();
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void findsACompletionThatNamesALeafOfAnotherKind() {
        log.add().add(record -> record.setEvent(AuditEvent.CANARY));
        completions();
        leaves();
        assertRefuted("RECON_POSITION", "completion: leaf 1 of log " + log.state.origin(),
                "INFERENCE or REFUSED for millrace.completions", "CANARY for millrace.completions", place(1));
    }

    @Test
    void findsAMissingLeaf() {
        log.add(3);
        log.leaves.removeLast();
        completions();
        leaves();
        assertRefuted("RECON_LEAF_MISSING", "completion: leaf 2 of log " + log.state.origin(), log.hashes.get(2).hex(),
                "no leaf there", place(2));
    }

    @Test
    void findsAMissingCompletion() {
        log.add(3);
        log.completions.remove(1);
        completions();
        leaves();
        assertRefuted("RECON_COMPLETION_MISSING", "leaf 1 of log " + log.state.origin(), "a completion of request r-1",
                "none in millrace.completions", new Place(TestLog.TOPIC, 0, 1));
    }

    @Test
    void expectsNoCompletionsThatTheirTopicHasDeletedByAge() {
        log.add(5);
        log.completions.subList(0, 2).clear();
        matcher.truncated(List.of(0));
        completions();
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.expired()).isEqualTo(2);
        assertThat(matcher.matched()).isEqualTo(3);
    }

    /// Leaves as a reader has them who does not look at the chain.
    private void unchainedLeaves() {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        for (byte[] leaf : log.leaves) {
            WireReader.Decoded<AttestationRecord> decoded = reader.read(leaf);
            matcher.leaf(new LogVerifier.Checked(decoded.record(), decoded.fingerprint(),
                    Leaf.hashOfWire(decoded.fingerprint(), leaf), new Place(TestLog.TOPIC, 0, decoded.record().getSeq())));
        }
    }

    @Test
    void expectsNoLeavesThatTheirTopicHasDeletedByAge() {
        log.add(5);
        matcher.leavesTruncated(List.of(0));
        completions();
        log.leaves.subList(0, 2).clear();
        unchainedLeaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.pruned()).isEqualTo(2);
        assertThat(matcher.waiting()).isZero();
    }

    @Test
    void findsAMissingLeafBehindTheOldestThatIsLeft() {
        log.add(5);
        matcher.leavesTruncated(List.of(0));
        completions();
        log.leaves.remove(3);
        log.leaves.remove(0);
        unchainedLeaves();
        assertRefuted("RECON_LEAF_MISSING", "completion: leaf 3 of log " + log.state.origin(), log.hashes.get(3).hex(),
                "no leaf there", place(3));
        assertThat(matcher.pruned()).isEqualTo(1);
    }

    @Test
    void findsAMissingCompletionAmongThoseThatAreLeft() {
        log.add(5);
        log.completions.remove(3);
        log.completions.removeFirst();
        matcher.truncated(List.of(0));
        completions();
        leaves();
        assertRefuted("RECON_COMPLETION_MISSING", "leaf 3 of log " + log.state.origin(), "a completion of request r-3",
                "none in millrace.completions", new Place(TestLog.TOPIC, 0, 3));
    }

    @Test
    void expectsNoCompletionOfAnEvent() {
        log.addEvent(AuditEvent.MODEL_LOAD).add(1).addEvent(AuditEvent.CANARY).add(1);
        completions();
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.matched()).isEqualTo(2);
    }

    @Test
    void findsASecondCompletion() {
        log.add(2);
        log.completions.add(log.completions.getFirst());
        leaves();
        completions();
        assertRefuted("RECON_DUPLICATE", "completion of leaf 0 of log " + log.state.origin(), "one", "a second",
                place(2));
    }

    @Test
    void findsADifferentLeaf() {
        log.add(2);
        change(1, completion -> completion.getAudit().setLeaf(Digest.ZERO.toHash()));
        completions();
        leaves();
        assertRefuted("RECON_LEAF_HASH", "completion: hash of millrace.audit-0@1", log.hashes.get(1).hex(),
                Digest.ZERO.hex(), place(1));
    }

    @Test
    void findsDifferentFacts() {
        String right = "sha256:" + Digest.sha256("model").hex() + " stop 9+3 tokens, seed 0";
        log.add(1);
        change(0, completion -> completion.getUsage().setCompletionTokens(4));
        completions();
        leaves();
        assertRefuted("RECON_DIFFERS", "completion: what millrace.audit-0@0 says of it", "r-0 " + right,
                "r-0 " + right.replace("9+3", "9+4"), place(0));
        differs(completion -> completion.setRequestId("other"));
        differs(completion -> completion.setModelDigest("none"));
        differs(completion -> completion.setFinishReason(FinishReason.length));
        differs(completion -> completion.setSeed(5L));
        differs(completion -> completion.setErrorCode("X"));
    }

    private void differs(Consumer<Completion> change) {
        violates("RECON_DIFFERS", change);
    }

    private void violates(String code, Consumer<Completion> change) {
        CompletionMatcherTest fresh = new CompletionMatcherTest();
        fresh.log.add(1);
        fresh.change(0, change);
        fresh.leaves();
        fresh.completions();
        assertThat(((Refuted) fresh.matcher.verdict()).code()).isEqualTo(code);
    }

    @Test
    void findsOtherFormatsThanTheLeafNames() {
        log.add(1);
        change(0, completion -> completion.setWeightFormat("int4"));
        completions();
        leaves();
        assertRefuted("RECON_DIFFERS", "completion: formats that millrace.audit-0@0 names", "KV bf16, weights bf16+f32",
                "KV bf16, weights int4", place(0));
        differs(completion -> completion.setKvFormat("int8"));
        differs(completion -> completion.setWeightFormat(""));
    }

    /// Records of version 1 do not say how the weights were stored, and their completions nothing of the KV cache.
    @Test
    void matchesRecordsOfTheFirstVersion() {
        log.addOld().addOld().add();
        completions();
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.matched()).isEqualTo(3);
    }

    @Test
    void findsACompletionInAnotherPartition() {
        log.add(record -> record.setOutPartition(3));
        leaves();
        completions();
        assertRefuted("RECON_DIFFERS", "completion: partition that millrace.audit-0@0 names", "3", "0", place(0));
    }

    @Test
    void findsTextThatTheCommitmentDoesNotOpenTo() {
        log.add(1);
        change(0, completion -> completion.setText("something else"));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT", "completion: text, as millrace.audit-0@0 commits to it",
                Commitment.completion(TestLog.SALT, TestLog.text(0)).hex(),
                Commitment.completion(TestLog.SALT, "something else").hex(), place(0));
    }

    @Test
    void findsTokenIdsThatTheCommitmentDoesNotOpenTo() {
        log.add(1);
        change(0, completion -> completion.setTokenIds(List.of(1, 2, 3)));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT", "completion: token ids, as millrace.audit-0@0 commits to them",
                Commitment.tokenIds(TestLog.SALT, List.of(1, 2, 0)).hex(),
                Commitment.tokenIds(TestLog.SALT, List.of(1, 2, 3)).hex(), place(0));
    }

    @Test
    void findsLogitsDigestsThatTheCommitmentDoesNotOpenTo() {
        log.add(1);
        change(0, completion -> completion.setLogitsDigests(List.of(0x01020304, 5)));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT", "completion: logits digests, as millrace.audit-0@0 commits to them",
                Commitment.logits(TestLog.SALT, TestLog.LOGITS).hex() + " of every 2 tokens",
                Commitment.logits(TestLog.SALT, List.of(0x01020304, 5)).hex() + " of every 2 tokens", place(0));
        violates("RECON_COMMITMENT", completion -> completion.setLogitsEvery(4));
        violates("RECON_COMMITMENT", completion -> completion.setLogitsDigests(List.of()));
        violates("RECON_COMMITMENT", completion -> completion.setLogitsDigests(null));
    }

    @Test
    void findsActivationProofsThatTheCommitmentDoesNotOpenTo() {
        byte[] proofs = {1, 2, 3};
        Digest commitment = Commitment.proofs(TestLog.SALT, proofs);
        log.add(record -> record.setProofsCommit(commitment.toHash()));
        change(0, completion -> completion.setActivationProofs(ByteBuffer.wrap(new byte[] {1, 2, 4})));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT", "completion: activation proofs, as millrace.audit-0@0 commits to them",
                commitment.hex(), Commitment.proofs(TestLog.SALT, new byte[] {1, 2, 4}).hex(), place(0));
    }

    @Test
    void findsRepliesAndLogProbabilitiesThatTheCommitmentDoesNotOpenTo() {
        log.add(3);
        List<TokenLogprob> other = TestLog.logprobs(0);
        other.getFirst().getTop().getFirst().setLogprob(-0.125f);
        change(0, completion -> completion.setLogprobs(other));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT",
                "completion: reply and log probabilities, as millrace.audit-0@0 commits to them",
                String.valueOf(ReplyForm.commit(TestLog.SALT, TestLog.reply(0), TestLog.logprobs(0))),
                String.valueOf(ReplyForm.commit(TestLog.SALT, TestLog.reply(0), other)), place(0));
        violates("RECON_COMMITMENT", completion -> completion.getReply().setContent("another"));
        violates("RECON_COMMITMENT", completion -> completion.getReply().setReasoningContent(null));
        violates("RECON_COMMITMENT", completion -> completion.getReply().getToolCalls().getFirst().setArguments("{}"));
        violates("RECON_COMMITMENT", completion -> completion.getReply().setToolCalls(List.of()));
        violates("RECON_COMMITMENT", completion -> completion.setReply(null));
        violates("RECON_COMMITMENT", completion -> completion.setLogprobs(null));
        violates("RECON_COMMITMENT", completion -> {
            completion.setReply(null);
            completion.setLogprobs(null);
        });
    }

    @Test
    void findsAReplyThatNothingCommitsTo() {
        log.add(record -> record.setReplyCommit(null));
        change(0, completion -> completion.setReply(TestLog.reply(0)));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT",
                "completion: reply and log probabilities, as millrace.audit-0@0 commits to them", "none",
                String.valueOf(ReplyForm.commit(TestLog.SALT, TestLog.reply(0), null)), place(0));
    }

    /// Below level 3 neither the leaf nor the completion has any.
    @Test
    void findsLogitsDigestsThatNothingCommitsTo() {
        log.add(record -> {
            record.setLevel(1);
            record.setLogitsEvery(0);
            record.setLogitsCommit(null);
        });
        change(0, completion -> completion.setLogitsDigests(TestLog.LOGITS));
        completions();
        leaves();
        assertRefuted("RECON_COMMITMENT", "completion: logits digests, as millrace.audit-0@0 commits to them", "none",
                Commitment.logits(TestLog.SALT, TestLog.LOGITS).hex() + " of every 0 tokens", place(0));
    }

    @Test
    void findsASaltOfTheWrongLength() {
        log.add(1);
        change(0, completion -> completion.setSalt(ByteBuffer.allocate(3)));
        completions();
        assertRefuted("RECON_COMMITMENT", "completion: salt", "32 bytes", "3 bytes", place(0));
    }

    @Test
    void findsUndecodableCompletionsAndPositions() {
        matcher.completion(place(4), new byte[] {0, 0}, null);
        assertRefuted("RECON_UNDECODABLE", "completion", "a readable completion",
                "millrace.schemas.Completion: expected a byte 0 and a schema id before the record, got 2 bytes that"
                        + " begin with 0", place(4));
        CompletionMatcherTest fresh = new CompletionMatcherTest();
        fresh.log.add(1);
        fresh.change(0, completion -> completion.getAudit().setPartition(9));
        fresh.completions();
        assertThat(((Refuted) fresh.matcher.verdict()).code()).isEqualTo("RECON_POSITION");
    }

    @Test
    void passesOverCompletionsOfOtherPartitions() {
        TestLog other = new TestLog(1).add(2);
        log.add(2);
        completions();
        other.completions.forEach(completion -> matcher.completion(place(9), completion, 0));
        leaves();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(matcher.completions()).isEqualTo(2);
    }

    /// In a live topic the newest records never have their other half yet.
    @Test
    void asksNothingOfWhatCameWhileSettling() {
        log.add(2);
        byte[] late = log.completions.remove(1);
        completions();
        leaves();
        assertThat(matcher.waiting()).isEqualTo(1);
        matcher.startSettling();
        matcher.completion(place(1), late, null);
        TestLog newer = new TestLog(0).add(3);
        matcher.completion(place(2), newer.completions.get(2), null);
        assertThat(matcher.waiting()).isZero();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    private void assertRefuted(String code, String what, String expected, String got, Place at) {
        assertThat(matcher.verdict()).isEqualTo(new Refuted(code, what, expected, got, at));
    }
}

package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.ResponseFormat;
import millrace.engine.Sampling;
import millrace.engine.guide.GuideEngine;
import millrace.engine.guide.TestVocabulary;
import millrace.engine.sampling.Sampler;
import millrace.engine.tokenizer.Reasoning;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// One guided generation, its logits made up.
class GuidedWorkTest {
    private static final ResponseFormat FORMAT = new ResponseFormat.JsonSchema("""
            {"type":"object","properties":{"a":{"type":"string","minLength":3,"maxLength":9},"b":{"type":"array",
            "items":{"enum":["x",1,null]},"minItems":2,"maxItems":5}},"required":["a","b"]}""");
    private static final List<Integer> PROMPT = List.of(1, 2, 3);

    private final TestVocabulary tokens = TestVocabulary.standard();
    private final GuideEngine guides = new GuideEngine(tokens, tokens.vocabSize(), tokens.stops(), null);

    private static final class Heard implements GenerationListener {
        private final StringBuilder text = new StringBuilder();
        private int restarts;
        private @Nullable GenerationResult result;

        @Override
        public void onDelta(String delta) {
            text.append(delta);
        }

        @Override
        public void onRestart() {
            restarts++;
            text.setLength(0);
        }

        @Override
        public void onEnd(GenerationResult end) {
            result = end;
        }
    }

    /// @param doubts tokens that are taken back, now and then; 0 for none
    private Heard run(long seed, float temperature, int doubts, Set<Integer> stops) {
        return run(seed, temperature, doubts, stops, null);
    }

    /// @param drafted gets the drafts behind each token; null for none
    private Heard run(
            long seed, float temperature, int doubts, Set<Integer> stops, @Nullable List<List<Integer>> drafted) {
        var request = new GenerationRequest("r", new PromptInput.TokenIds(PROMPT), new Sampling(temperature, 0.95f, 30, 0f, 1.2f, seed), 200,
                List.of(), Long.MAX_VALUE, 0).withFormat(FORMAT);
        var heard = new Heard();
        var guide = java.util.Objects.requireNonNull(guides.guide(FORMAT));
        var work = new GenerationWork(request, new Sampler(tokens.vocabSize()), () -> guides.start(guide, Reasoning.NONE),
                new LogitsCheck(tokens.vocabSize(), Float.MAX_VALUE), 0, Activations.NONE, new Vocabulary(tokens, stops), heard,
                StepClock.system(), () -> {});
        var sequence = new Sequence("r", new int[] {1, 2, 3}, 200, 0, Long.MAX_VALUE, "", 0, work);
        var random = new SplittableRandom(seed);
        while (true) {
            if (doubts > 0 && sequence.generated() > 0 && random.nextInt(4) == 0) {
                sequence.keep(Math.max(0, sequence.generated() - random.nextInt(doubts + 1)));
                assertThat(work.restart(sequence)).isTrue();
            }
            float[] logits = logits(seed, sequence.generated());
            Work.Outcome outcome = work.accept(sequence, sequence.length() - 1, logits, 0);
            if (drafted != null && outcome == Work.Outcome.CONTINUE) {
                draft(work, sequence, seed, drafted);
            }
            if (outcome != Work.Outcome.CONTINUE) {
                assertThat(outcome).isEqualTo(Work.Outcome.STOP);
                work.end(sequence, FinishReason.STOP, null, null);
                return heard;
            }
        }
    }

    /// Drafts three tokens from the logits that will come.
    private void draft(GenerationWork work, Sequence sequence, long seed, List<List<Integer>> drafted) {
        List<Integer> drafts = new ArrayList<>();
        int token = 0;
        while (token >= 0 && drafts.size() < 3 && sequence.generated() + drafts.size() < 199) {
            float[] logits = logits(seed, sequence.generated() + drafts.size());
            token = work.draft(sequence, drafts.size(), logits, 0, Sampler.UNKNOWN);
            if (token >= 0) {
                sequence.tokens()[sequence.length() + drafts.size()] = token;
                drafts.add(token);
            }
        }
        drafted.add(drafts);
    }

    /// Drafts are of the form that was asked for, as the tokens are that come, and change nothing of it.
    @Test
    void draftsLeadOnAsTheTokensDo() {
        for (long seed = 0; seed < 30; seed++) {
            float temperature = seed % 3 == 0 ? 0f : 1.3f;
            List<List<Integer>> drafted = new ArrayList<>();
            List<Integer> tokens = run(seed, temperature, 0, this.tokens.stops(), null).result.tokenIds();
            assertThat(run(seed, temperature, 0, this.tokens.stops(), drafted).result.tokenIds()).isEqualTo(tokens);
            assertThat(drafted).hasSize(tokens.size() - 1);
            for (int i = 0; i < drafted.size(); i++) {
                assertThat(drafted.get(i)).as("seed %d, token %d", seed, i)
                        .isEqualTo(tokens.subList(i + 1, Math.min(i + 4, tokens.size())));
            }
        }
    }

    private float[] logits(long seed, int step) {
        var random = new SplittableRandom(seed * 1_000 + step);
        float[] logits = new float[tokens.vocabSize()];
        for (int i = 0; i < logits.length; i++) {
            logits[i] = (float) random.nextDouble(-3, 3);
        }
        return logits;
    }

    @Test
    void tokensThatAreTakenBackComeAgain() throws Exception {
        int restarts = 0;
        for (long seed = 0; seed < 30; seed++) {
            float temperature = seed % 3 == 0 ? 0f : 1.3f;
            Heard plain = run(seed, temperature, 0, tokens.stops());
            Heard doubted = run(seed, temperature, 6, tokens.stops());
            GenerationResult expected = java.util.Objects.requireNonNull(plain.result);
            GenerationResult result = java.util.Objects.requireNonNull(doubted.result);
            assertThat(result.tokenIds()).isEqualTo(expected.tokenIds());
            assertThat(doubted.text.toString()).isEqualTo(expected.text());
            assertThat(new JsonMapper().readTree(expected.text()).get("a").textValue()).hasSizeBetween(3, 18);
            restarts += doubted.restarts;
        }
        assertThat(restarts).isGreaterThan(50);
    }

    @Test
    void aDocumentEndsWithoutAStopToken() throws Exception {
        Heard heard = run(7, 1f, 0, Set.of());
        GenerationResult result = java.util.Objects.requireNonNull(heard.result);
        assertThat(result.text()).endsWith("}");
        assertThat(new JsonMapper().readTree(result.text()).size()).isEqualTo(2);
        assertThat(tokens.decode(result.tokenIds().stream().mapToInt(Integer::intValue).toArray())).isEqualTo(result.text());
    }

    @Test
    void failsWhereNoTokenLeadsOn() {
        TestVocabulary odd = new TestVocabulary(false, List.of("{", "x"));
        var with = new GuideEngine(odd, odd.vocabSize(), odd.stops(), null);
        var guide = java.util.Objects.requireNonNull(with.guide(FORMAT));
        var request = GenerationRequest.greedy("r", new PromptInput.TokenIds(PROMPT), 20).withFormat(FORMAT);
        var heard = new Heard();
        var work = new GenerationWork(request, new Sampler(odd.vocabSize()), () -> with.start(guide, Reasoning.NONE),
                new LogitsCheck(odd.vocabSize(), Float.MAX_VALUE), 0, Activations.NONE, new Vocabulary(odd, odd.stops()), heard,
                StepClock.system(), () -> {});
        var sequence = new Sequence("r", new int[] {1, 2, 3}, 20, 0, Long.MAX_VALUE, "", 0, work);
        // The largest logit is of a token that does not lead on: what is known of it is not used.
        float[] logits = {1, 2, 3, 4, 5, 6};
        assertThat(work.accept(sequence, 2, logits, 0)).isEqualTo(Work.Outcome.CONTINUE);
        assertThat(sequence.tokens()[3]).isZero();
        assertThat(work.accept(sequence, 3, logits, 0)).isEqualTo(Work.Outcome.FAILED);
        assertThat(sequence.code).isEqualTo("GUIDE_DEAD_END");
        assertThat(sequence.problem).isEqualTo("response_format: expected a vocabulary in which every document can be written, got none of its"
                + " tokens that leads on; ask for text, or use a tokenizer that has every byte");
        assertThat(sequence.generated()).isOne();
    }
}

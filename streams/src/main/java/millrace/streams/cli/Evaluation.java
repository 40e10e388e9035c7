package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.KvFormat;
import millrace.engine.ModelCard;
import org.jspecify.annotations.Nullable;

/// Questions, a text, or both, put to an engine and to a reference beside it.
///
/// @param questions not yet answered
/// @param maxTokens the most tokens of an answer
/// @param maxBatch the most sequences that run at once
/// @param err for progress
record Evaluation(
        @Nullable QuestionScore questions, @Nullable TextWindows text, int maxTokens, int maxBatch, PrintWriter err) {

    /// What others are compared with: a KV cache that rounds nothing, and the weights that the checkpoint has. The budget
    /// of the KV cache is not taken over: as many bytes hold fewer tokens.
    static EngineConfig reference(EngineConfig config) {
        return config.withKvFormat(KvFormat.F32).withWeightFormat("stored").withKvBytes(0);
    }

    /// Whether an engine of this configuration is its own reference.
    static boolean isReference(EngineConfig config) {
        return config.kvFormat() == KvFormat.F32 && config.weightFormat().equals("stored");
    }

    static void describe(ObjectNode report, ModelCard card) {
        report.put("kv_format", card.kvFormat()).put("weight_format", card.weightFormat());
    }

    /// The questions with this engine's answers, or null where there are none.
    @Nullable QuestionScore answers(Engine engine) throws InterruptedException {
        if (questions == null) {
            return null;
        }
        QuestionScore answers = questions.again();
        answers.run(engine, maxTokens, maxBatch, err);
        return answers;
    }

    /// Measures an engine alone.
    void measure(ObjectNode report, Engine engine) throws InterruptedException {
        QuestionScore answers = answers(engine);
        if (answers != null) {
            answers.report(report.putObject("accuracy"));
        }
        if (text != null) {
            PerplexityScore score = new PerplexityScore(text);
            score.run(engine, maxBatch, err);
            score.report(report.putObject("nll"));
        }
    }

    /// Measures an engine, its reference, and how far they are apart.
    ///
    /// @param expected the reference's [#answers]
    void compare(ObjectNode report, Engine engine, Engine reference, @Nullable QuestionScore expected)
            throws InterruptedException {
        ObjectNode beside = report.putObject("reference");
        describe(beside, reference.card());
        ObjectNode quality = report.putObject("quality");
        QuestionScore answers = answers(engine);
        if (answers != null && expected != null) {
            answers.report(report.putObject("accuracy"));
            expected.report(beside.putObject("accuracy"));
            quality.put("questions", answers.questions()).put("same_answers", answers.sameAnswers(expected));
        }
        if (text != null) {
            DivergenceScore score = new DivergenceScore(text);
            score.run(reference, engine, err);
            score.report(quality, report.putObject("nll"), beside.putObject("nll"));
        }
    }
}

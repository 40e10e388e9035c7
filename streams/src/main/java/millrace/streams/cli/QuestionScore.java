package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.TextEngine;
import millrace.streams.Models;

/// Right answers by category: exact match of the greedy completion.
final class QuestionScore {
    private final List<Question> questions;

    /// Category to questions and right answers; `all` counts every question.
    private final Map<String, int[]> counts = new TreeMap<>();

    private final List<List<Integer>> answers = new ArrayList<>();
    private long done;
    private long tokens;

    private QuestionScore(List<Question> questions) {
        this.questions = questions;
    }

    private record Question(String where, String prompt, String answer, String category) {}

    private record Answer(Question question, GenerationResult result) {}

    static QuestionScore read(String file) throws IOException {
        return of(JsonLines.read(file), file);
    }

    /// The questions that come with a model.
    static QuestionScore bundled(String model) {
        return of(JsonLines.of(Models.questions(model), "questions of " + model), model);
    }

    private static QuestionScore of(List<JsonLines.Line> lines, String where) {
        List<Question> questions = new ArrayList<>();
        for (JsonLines.Line line : lines) {
            String prompt = line.text("prompt");
            String answer = line.text("answer");
            String category = line.text("category");
            if (prompt == null || answer == null) {
                throw line.problem("expected prompt and answer, got " + (prompt == null ? "no prompt" : "no answer"));
            }
            questions.add(new Question(line.where(), prompt, answer, category == null ? "other" : category));
        }
        if (questions.isEmpty()) {
            throw new IllegalArgumentException(where + ": expected at least one question, got none");
        }
        return new QuestionScore(questions);
    }

    /// The same questions, not yet answered.
    QuestionScore again() {
        return new QuestionScore(questions);
    }

    void run(TextEngine engine, int maxTokens, int maxBatch, PrintWriter err) throws InterruptedException {
        Progress progress = new Progress(err, "questions", questions.size());
        var results = new InOrder<Answer>(4 * maxBatch, this::count, () -> progress.show(done, tokens));
        for (Question question : questions) {
            var input = new PromptInput.Messages(
                    List.of(ChatMessage.of("user", question.prompt())), ChatOptions.DEFAULT);
            var answer = new CompletableFuture<Answer>();
            engine.submit(
                    engine.prepare(GenerationRequest.greedy(question.where(), input, maxTokens)),
                    result -> answer.complete(new Answer(question, result)));
            results.add(answer);
        }
        results.finish();
        progress.end(done, tokens);
    }

    private void count(Answer answer) {
        GenerationResult result = answer.result();
        if (result.reason() == FinishReason.FAILED) {
            throw new IllegalStateException(
                    answer.question().where() + ": " + result.errorCode() + ": " + result.errorMessage());
        }
        done++;
        tokens += result.usage().completionTokens();
        answers.add(List.copyOf(result.tokenIds()));
        int right = result.text().strip().equals(answer.question().answer().strip()) ? 1 : 0;
        for (String category : List.of("all", answer.question().category())) {
            int[] count = counts.computeIfAbsent(category, c -> new int[2]);
            count[0]++;
            count[1] += right;
        }
    }

    int questions() {
        return questions.size();
    }

    /// Answers that are token for token the other's.
    int sameAnswers(QuestionScore other) {
        return (int) IntStream.range(0, answers.size())
                .filter(i -> answers.get(i).equals(other.answers.get(i)))
                .count();
    }

    void report(ObjectNode report) {
        counts.forEach((category, count) -> report.putObject(category)
                .put("correct", count[1])
                .put("questions", count[0])
                .put("accuracy", Math.round(10_000.0 * count[1] / count[0]) / 10_000.0));
    }
}

package millrace.streams.demo;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.Models;

/// One question with its expected answer.
public record Question(String prompt, String answer, String category) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /// The first `count` questions that come with a model; they repeat when there are fewer.
    public static List<Question> of(String model, int count) {
        List<String> lines = Models.questions(model);
        List<Question> questions = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            questions.add(parse(lines.get(i % lines.size())));
        }
        return questions;
    }

    private static Question parse(String line) {
        try {
            JsonNode node = JSON.readTree(line);
            return new Question(node.required("prompt").asText(), node.required("answer").asText(), node.required("category").asText());
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a bundled question is not JSON: " + e.getOriginalMessage(), e);
        }
    }

    /// The question as a prompt event: one message of the user. The answer brings its token ids along.
    public Prompt event(String requestId) {
        return Prompt.newBuilder()
                .setRequestId(requestId)
                .setMessages(List.of(new Message("user", prompt, null, null, null, List.of())))
                .setReturnTokenIds(true)
                .build();
    }

    /// Exact match, but for white space around the answer.
    public boolean isRight(String text) {
        return text.strip().equals(answer.strip());
    }
}

import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.DeltaListener;
import millrace.streams.client.MillraceClient;
import millrace.streams.client.PendingAnswer;
import java.util.List;
import java.util.UUID;

/// Shows an answer while it is generated, and then where its leaf is: java -cp ... Ask.java BOOTSTRAP REGISTRY_URL QUESTION
class Ask {
    public static void main(String[] arguments) throws Exception {
        ClientConfig config = ClientConfig.builder().bootstrap(arguments[0]).registry(arguments[1]).build();
        Prompt prompt = Prompt.newBuilder()
                .setRequestId(UUID.randomUUID().toString())
                .setMessages(List.of(new Message("user", arguments[2], null, null, null, List.of())))
                .build();
        try (MillraceClient client = MillraceClient.open(config)) {
            PendingAnswer answer = client.send(prompt, new DeltaListener() {
                @Override
                public void onDelta(Delta delta) {
                    System.err.print(delta.getText());
                }

                @Override
                public void onRestart() {
                    System.err.println(" [void, it begins again]");
                }
            });
            Completion completion = answer.completion().get();
            System.err.println();
            System.out.println(completion.getFinishReason() + ": " + completion.getText() + " (leaf " + completion.getAudit().getSeq()
                    + " of " + completion.getAudit().getOrigin() + ")");
        }
    }
}

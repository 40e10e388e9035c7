package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import millrace.streams.openai.Json;

/// Server-sent events. Each is on its way when the call returns; one that cannot be sent says that the client is gone.
final class EventStream {
    private final OutputStream out;

    EventStream(OutputStream out) {
        this.out = out;
    }

    void data(ObjectNode event) throws IOException {
        write("data: " + Json.write(event) + "\n\n");
    }

    void comment(String text) throws IOException {
        write(": " + text + "\n\n");
    }

    void done() throws IOException {
        write("data: [DONE]\n\n");
    }

    private void write(String text) throws IOException {
        out.write(text.getBytes(StandardCharsets.UTF_8));
        out.flush();
    }
}

package millrace.streams.bench;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import millrace.streams.openai.Json;

/// One streamed chat completion of a gateway over a bare socket: each event has the time at which its last byte was read, which
/// no client library has held back.
final class SseReader {
    private static final String DATA = "data: ";
    private static final String END = "data: [DONE]";

    /// Takes text and the time at which it was there, in nanoseconds of [System#nanoTime].
    @FunctionalInterface
    interface Sink {
        void text(String text, long atNanos);
    }

    private final Sink sink;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private boolean ended;
    private String status = "";

    private SseReader(Sink sink) {
        this.sink = sink;
    }

    /// Asks for the answer to a prompt and returns when its stream has ended.
    ///
    /// @throws IOException if it did not end as a whole answer does
    static void read(int port, String prompt, Duration patience, Sink sink) throws IOException {
        var body = Json.object().put("stream", true);
        body.putArray("messages").addObject().put("role", "user").put("content", prompt);
        byte[] json = Json.bytes(body);
        SseReader reader = new SseReader(sink);
        try (Socket socket = new Socket()) {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout((int) patience.toMillis());
            socket.connect(new InetSocketAddress("127.0.0.1", port));
            OutputStream out = socket.getOutputStream();
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.writeBytes(("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nContent-Type: application/json\r\n"
                    + "Content-Length: " + json.length + "\r\nConnection: close\r\n\r\n").getBytes(StandardCharsets.UTF_8));
            request.writeBytes(json);
            out.write(request.toByteArray());
            reader.readAll(socket.getInputStream());
        }
        if (!reader.ended) {
            throw new IOException("gateway: a streamed answer: expected " + END + " at its end, got none; it began with " + reader.status);
        }
    }

    private void readAll(InputStream in) throws IOException {
        byte[] bytes = new byte[1 << 16];
        for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
            long now = System.nanoTime();
            for (int i = 0; i < n; i++) {
                if (bytes[i] == '\n') {
                    line(line.toString(StandardCharsets.UTF_8).strip(), now);
                    line.reset();
                } else {
                    line.write(bytes[i]);
                }
            }
        }
    }

    /// An event is a chunk of its own, so that sizes of chunks and headers stand in lines beside it and are passed over.
    private void line(String line, long now) throws IOException {
        if (status.isEmpty()) {
            status = line;
        } else if (line.equals(END)) {
            ended = true;
        } else if (line.startsWith(DATA)) {
            String text = Json.read(line.substring(DATA.length()).getBytes(StandardCharsets.UTF_8))
                    .path("choices").path(0).path("delta").path("content").asText();
            if (!text.isEmpty()) {
                sink.text(text, now);
            }
        }
    }
}

package millrace.streams.tracing;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiConsumer;
import java.util.zip.GZIPInputStream;

/// A collector that takes spans by OTLP over HTTP and keeps them; it reads what the protocol's definition says, and no more.
public final class OtlpReceiver implements AutoCloseable {
    /// One span as it came.
    ///
    /// @param parentId empty for the first of a trace
    /// @param status 0 unset, 1 ok, 2 error
    public record Received(
            String traceId, String spanId, String parentId, String state, String name, int kind, long begin, long end,
            Map<String, String> attributes, int status, Map<String, String> resource) {}

    public final List<Received> spans = new CopyOnWriteArrayList<>();
    public final List<String> authorizations = new CopyOnWriteArrayList<>();
    private final HttpServer server;

    public OtlpReceiver() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/v1/traces", exchange -> {
            try (exchange) {
                authorizations.add(String.valueOf(exchange.getRequestHeaders().getFirst("authorization")));
                byte[] body = "gzip".equals(exchange.getRequestHeaders().getFirst("content-encoding"))
                        ? new GZIPInputStream(exchange.getRequestBody()).readAllBytes()
                        : exchange.getRequestBody().readAllBytes();
                request(ByteBuffer.wrap(body));
                exchange.getResponseHeaders().set("content-type", "application/x-protobuf");
                exchange.sendResponseHeaders(200, -1);
            }
        });
        server.start();
    }

    public String endpoint() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    private void request(ByteBuffer request) {
        fields(request, (field, resourceSpans) -> {
            Map<String, String> resource = new HashMap<>();
            fields((ByteBuffer) resourceSpans, (part, value) -> {
                if (part == 1) {
                    fields((ByteBuffer) value, (kind, pair) -> attribute(resource, kind == 1 ? (ByteBuffer) pair : null));
                } else if (part == 2) {
                    fields((ByteBuffer) value, (kind, span) -> {
                        if (kind == 2) {
                            spans.add(span((ByteBuffer) span, resource));
                        }
                    });
                }
            });
        });
    }

    private static Received span(ByteBuffer bytes, Map<String, String> resource) {
        Map<Integer, Object> values = new HashMap<>();
        Map<String, String> attributes = new HashMap<>();
        int[] status = {0};
        fields(bytes, (field, value) -> {
            if (field == 9) {
                attribute(attributes, (ByteBuffer) value);
            } else if (field == 15) {
                fields((ByteBuffer) value, (part, code) -> status[0] = part == 3 ? ((Long) code).intValue() : status[0]);
            } else {
                values.put(field, value);
            }
        });
        return new Received(hex(values.get(1)), hex(values.get(2)), hex(values.get(4)), text(values.get(3)), text(values.get(5)),
                ((Long) values.getOrDefault(6, 0L)).intValue(), (Long) values.get(7), (Long) values.get(8), attributes, status[0], resource);
    }

    private static void attribute(Map<String, String> into, ByteBuffer pair) {
        if (pair == null) {
            return;
        }
        String[] name = {""};
        fields(pair, (field, value) -> {
            if (field == 1) {
                name[0] = text(value);
            } else {
                into.put(name[0], value((ByteBuffer) value));
            }
        });
    }

    private static String value(ByteBuffer any) {
        StringBuilder all = new StringBuilder();
        fields(any, (field, value) -> {
            switch (field) {
                case 1 -> all.append(text(value));
                case 4 -> all.append(Double.longBitsToDouble((Long) value));
                case 5 -> fields((ByteBuffer) value, (index, item) -> all.append(value((ByteBuffer) item)));
                default -> all.append(value);
            }
        });
        return all.toString();
    }

    private static String text(Object value) {
        return value == null ? "" : StandardCharsets.UTF_8.decode(((ByteBuffer) value).duplicate()).toString();
    }

    private static String hex(Object value) {
        if (value == null) {
            return "";
        }
        byte[] bytes = new byte[((ByteBuffer) value).remaining()];
        ((ByteBuffer) value).duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /// Each field of a message in Protocol Buffers' form: a number, or the bytes of what is within.
    private static void fields(ByteBuffer message, BiConsumer<Integer, Object> each) {
        ByteBuffer in = message.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        while (in.hasRemaining()) {
            long key = varint(in);
            Object value = switch ((int) (key & 7)) {
                case 0 -> varint(in);
                case 1 -> in.getLong();
                case 2 -> {
                    int length = (int) varint(in);
                    ByteBuffer part = in.slice(in.position(), length);
                    in.position(in.position() + length);
                    yield part;
                }
                case 5 -> (long) in.getInt();
                default -> throw new IllegalStateException("wire type " + (key & 7));
            };
            each.accept((int) (key >> 3), value);
        }
    }

    private static long varint(ByteBuffer in) {
        long value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = in.get();
            value |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return value;
            }
        }
    }

    @Override
    public void close() {
        server.stop(0);
    }
}

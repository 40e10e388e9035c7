package millrace.streams.gateway;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.streams.openai.ApiException;
import org.jspecify.annotations.Nullable;

/// The parts of a `multipart/form-data` body, one after the other, read as they come.
final class Multipart {
    private static final Pattern BOUNDARY = Pattern.compile("boundary=(?:\"([^\"]{1,70})\"|([^;\\s]{1,70}))", Pattern.CASE_INSENSITIVE);
    private static final Pattern PARAMETER = Pattern.compile("(?:^|;)\\s*(name|filename)=\"((?:[^\"\\\\]|\\\\.)*)\"", Pattern.CASE_INSENSITIVE);
    private static final int MOST_HEADER_BYTES = 8_192;
    private static final int MOST_FIELD_BYTES = 4_096;
    private static final int MOST_PARTS = 16;

    /// One part. Its content must be read before the next is asked for.
    ///
    /// @param name of the field; empty if it has none
    /// @param fileName what the client calls the file; null for a plain field
    record Part(String name, @Nullable String fileName, InputStream content) {
        /// The value of a plain field.
        String text() throws IOException {
            byte[] bytes = content.readNBytes(MOST_FIELD_BYTES + 1);
            if (bytes.length > MOST_FIELD_BYTES) {
                throw broken("a field of at most " + MOST_FIELD_BYTES + " bytes");
            }
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    private final InputStream in;
    private final byte[] delimiter;
    private final int[] fallback;
    private @Nullable Content open;
    private int parts;
    private boolean ended;

    /// @param contentType of the request, or null
    Multipart(@Nullable String contentType, InputStream body) throws IOException {
        Matcher boundary = BOUNDARY.matcher(contentType == null ? "" : contentType);
        if (contentType == null || !contentType.toLowerCase(Locale.ROOT).startsWith("multipart/form-data") || !boundary.find()) {
            throw broken("multipart/form-data with a boundary");
        }
        String text = boundary.group(1) == null ? boundary.group(2) : boundary.group(1);
        delimiter = ("\r\n--" + text).getBytes(StandardCharsets.ISO_8859_1);
        fallback = fallback(delimiter);
        in = new BufferedInputStream(body, 1 << 16);
        // The first delimiter may stand at the very beginning, without a line before it.
        Content preamble = new Content(2);
        preamble.skipAll();
        open = preamble;
    }

    private static ApiException broken(String expected) {
        return ApiException.invalid("invalid_multipart", null, "expected " + expected + ", got something else");
    }

    /// Knuth, Morris and Pratt: where to go on in the delimiter after a byte that does not fit.
    private static int[] fallback(byte[] pattern) {
        int[] table = new int[pattern.length + 1];
        table[0] = -1;
        for (int i = 0, k = -1; i < pattern.length; ) {
            while (k >= 0 && pattern[i] != pattern[k]) {
                k = table[k];
            }
            table[++i] = ++k;
        }
        return table;
    }

    /// The next part, or null after the last.
    @Nullable Part next() throws IOException {
        Content before = open;
        if (before != null) {
            before.skipAll();
        }
        if (ended) {
            return null;
        }
        int first = in.read();
        int second = in.read();
        if (first == '-' && second == '-') {
            ended = true;
            return null;
        }
        while (second >= 0 && !(first == '\r' && second == '\n')) {
            if (first != ' ' && first != '\t') {
                throw broken("a line's end behind the boundary");
            }
            first = second;
            second = in.read();
        }
        if (++parts > MOST_PARTS) {
            throw broken("at most " + MOST_PARTS + " parts");
        }
        String name = "";
        String fileName = null;
        for (String header = line(); !header.isEmpty(); header = line()) {
            if (header.toLowerCase(Locale.ROOT).startsWith("content-disposition:")) {
                Matcher parameter = PARAMETER.matcher(header);
                while (parameter.find()) {
                    String value = parameter.group(2).replaceAll("\\\\(.)", "$1");
                    if (parameter.group(1).equalsIgnoreCase("name")) {
                        name = value;
                    } else {
                        fileName = value;
                    }
                }
            }
        }
        Content content = new Content(0);
        open = content;
        return new Part(name, fileName, content);
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0 || line.size() > MOST_HEADER_BYTES) {
                throw broken("the headers of a part");
            }
            line.write(b);
        }
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }

    /// The bytes up to the next delimiter, which is taken too.
    private final class Content extends InputStream {
        private int matched;
        /// Bytes of a beginning of the delimiter that were content after all.
        private int pending;
        private int pendingFrom;
        private int held = -1;
        private boolean over;

        /// @param matched bytes of the delimiter that count as read
        Content(int matched) {
            this.matched = matched;
        }

        void skipAll() throws IOException {
            byte[] buffer = new byte[8_192];
            while (read(buffer, 0, buffer.length) >= 0) {
                continue;
            }
        }

        @Override
        public int read() throws IOException {
            while (true) {
                if (pending > 0) {
                    pending--;
                    return delimiter[pendingFrom++] & 0xff;
                }
                if (held >= 0) {
                    int b = held;
                    held = -1;
                    if (b == (delimiter[matched] & 0xff)) {
                        matched++;
                        continue;
                    }
                    if (matched == 0) {
                        return b;
                    }
                    giveBack(b);
                    continue;
                }
                if (over) {
                    return -1;
                }
                if (matched == delimiter.length) {
                    over = true;
                    return -1;
                }
                held = in.read();
                if (held < 0) {
                    throw broken("the closing boundary");
                }
            }
        }

        /// What was taken for the delimiter is content, as far as it cannot still be the beginning of one.
        private void giveBack(int b) {
            int shorter = fallback[matched];
            pending = matched - shorter;
            pendingFrom = 0;
            matched = shorter;
            held = b;
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            int count = 0;
            while (count < length) {
                int b = read();
                if (b < 0) {
                    break;
                }
                into[offset + count++] = (byte) b;
            }
            return count == 0 && length > 0 ? -1 : count;
        }
    }
}

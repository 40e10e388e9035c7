package millrace.streams.cli;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;

/// Asks a health page, for containers that have neither shell nor curl: ends normally where it answers 200, else with an
/// exception and so with exit code 1. It uses no library, to start fast.
public final class HealthProbe {
    private static final int PATIENCE_MS = 4_000;

    private HealthProbe() {}

    /// @param arguments one URL
    public static void main(String[] arguments) throws IOException {
        if (arguments.length != 1) {
            throw new IllegalArgumentException("expected the URL of a health page, got " + arguments.length + " arguments");
        }
        HttpURLConnection connection = (HttpURLConnection) URI.create(arguments[0]).toURL().openConnection();
        connection.setConnectTimeout(PATIENCE_MS);
        connection.setReadTimeout(PATIENCE_MS);
        int status = connection.getResponseCode();
        if (status != HttpURLConnection.HTTP_OK) {
            throw new IllegalStateException(arguments[0] + ": expected 200, got " + status);
        }
    }
}

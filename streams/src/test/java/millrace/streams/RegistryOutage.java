package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// A way to a registry that can be shut and opened again. A service goes through it; who looks at the service from outside
/// asks the registry itself.
final class RegistryOutage implements AutoCloseable {
    private static final String HOST = "127.0.0.1";

    private final URI registry;
    private final int port;
    private final Set<Socket> connections = ConcurrentHashMap.newKeySet();
    private @Nullable ServerSocket door;
    /// Bound and not listening: connections are refused, and nobody else gets the port.
    private @Nullable Socket placeholder;

    /// @param registry where it really is
    RegistryOutage(String registry) {
        this.registry = URI.create(registry);
        door = open(0);
        port = door.getLocalPort();
    }

    String url() {
        return "http://" + HOST + ":" + port;
    }

    void down() {
        close(door);
        connections.forEach(RegistryOutage::close);
        placeholder = new Socket();
        bind(port, placeholder::setReuseAddress, placeholder::bind);
    }

    void up() {
        close(placeholder);
        door = open(port);
    }

    private ServerSocket open(int at) {
        try {
            ServerSocket opened = new ServerSocket();
            bind(at, opened::setReuseAddress, opened::bind);
            Thread.ofVirtual().start(() -> accept(opened));
            return opened;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private interface Step<T> {
        void take(T value) throws IOException;
    }

    /// A socket that was closed while a thread waited in it has its port until that thread has left it.
    private static void bind(int at, Step<Boolean> reuse, Step<InetSocketAddress> bind) {
        long until = System.nanoTime() + 10_000_000_000L;
        while (true) {
            try {
                reuse.take(true);
                bind.take(new InetSocketAddress(HOST, at));
                return;
            } catch (IOException e) {
                if (System.nanoTime() > until) {
                    throw new UncheckedIOException(e);
                }
                ClusterClient.sleep(5);
            }
        }
    }

    private void accept(ServerSocket opened) {
        try {
            while (true) {
                Socket client = opened.accept();
                Socket server = new Socket(registry.getHost(), registry.getPort());
                connections.add(client);
                connections.add(server);
                Thread.ofVirtual().start(() -> pass(client, server));
                Thread.ofVirtual().start(() -> pass(server, client));
                if (opened.isClosed()) {
                    close(client);
                    close(server);
                }
            }
        } catch (IOException e) {
            // Shut.
        }
    }

    private void pass(Socket from, Socket to) {
        try {
            from.getInputStream().transferTo(to.getOutputStream());
        } catch (IOException e) {
            // One of the two has gone.
        } finally {
            close(from);
            close(to);
            connections.remove(from);
            connections.remove(to);
        }
    }

    private static void close(@Nullable AutoCloseable socket) {
        try {
            if (socket != null) {
                socket.close();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void close() {
        close(door);
        close(placeholder);
        connections.forEach(RegistryOutage::close);
    }
}

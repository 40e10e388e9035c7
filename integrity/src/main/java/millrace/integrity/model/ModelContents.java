package millrace.integrity.model;

import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.MessageDigest;
import java.util.EnumSet;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.LongConsumer;
import millrace.integrity.Digest;

/// The files that a statement is compared with.
public interface ModelContents {
    /// Every file with its size in bytes, by its path within the model, parts joined by `/`.
    SortedMap<String, Long> sizes();

    /// Of bytes `start` to `end`, the end excluded. May be called by several threads at once.
    ///
    /// @param progress is told each time so many more bytes are hashed
    Digest sha256(String path, long start, long end, LongConsumer progress) throws IOException;

    /// Why a file must not be taken as it is, or an empty text: a link, a pipe.
    ///
    /// @param allowSymlinks whether links that stay inside are files
    default String oddity(String path, boolean allowSymlinks) {
        return "";
    }

    /// Files below a directory, or the one file.
    static ModelContents of(Path path) throws IOException {
        return Disk.open(path);
    }

    /// Files on a disk. Links are listed, and followed only if they stay inside.
    final class Disk implements ModelContents {
        private static final int PIECE = 1 << 20;

        private final Path root;
        private final Path realRoot;
        private final SortedMap<String, Long> sizes = new TreeMap<>();

        private Disk(Path root, Path realRoot) {
            this.root = root;
            this.realRoot = realRoot;
        }

        static Disk open(Path root) throws IOException {
            Disk disk = new Disk(root, root.toRealPath());
            if (!Files.isDirectory(root)) {
                disk.sizes.put(ModelStatement.SINGLE_FILE, Files.size(root));
                return disk;
            }
            Files.walkFileTree(root, EnumSet.noneOf(FileVisitOption.class), Integer.MAX_VALUE, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    boolean there = Files.isRegularFile(file);
                    disk.sizes.put(disk.name(file), there ? Files.size(file) : 0);
                    return FileVisitResult.CONTINUE;
                }
            });
            return disk;
        }

        private String name(Path file) {
            return root.relativize(file).toString().replace(root.getFileSystem().getSeparator(), "/");
        }

        private Path path(String name) {
            return name.equals(ModelStatement.SINGLE_FILE) ? root : root.resolve(name);
        }

        @Override
        public SortedMap<String, Long> sizes() {
            return sizes;
        }

        @Override
        public String oddity(String name, boolean allowSymlinks) {
            Path path = path(name);
            if (Files.isSymbolicLink(path) && !allowSymlinks && !name.equals(ModelStatement.SINGLE_FILE)) {
                return "a symbolic link";
            }
            try {
                if (!path.toRealPath().startsWith(realRoot)) {
                    return "a link that leaves the directory";
                }
            } catch (IOException e) {
                return "a link to nothing";
            }
            return Files.isRegularFile(path) ? "" : "no regular file";
        }

        @Override
        public Digest sha256(String name, long start, long end, LongConsumer progress) throws IOException {
            MessageDigest sha = Digest.newSha256();
            try (FileChannel channel = FileChannel.open(path(name), StandardOpenOption.READ).position(start);
                    InputStream in = Channels.newInputStream(channel)) {
                byte[] buffer = new byte[PIECE];
                for (long left = end - start; left > 0; ) {
                    int read = in.read(buffer, 0, (int) Math.min(PIECE, left));
                    if (read < 0) {
                        break; // cut short meanwhile: the digest tells
                    }
                    sha.update(buffer, 0, read);
                    progress.accept(read);
                    left -= read;
                }
            }
            return Digest.of(sha.digest());
        }
    }
}

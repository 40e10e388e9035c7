package millrace.integrity.model;

import java.security.MessageDigest;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;

/// The signed list of a model's files.
///
/// @param model name of the signed subject, for people
/// @param root SHA-256 over the digests of the resources in the order of the list
/// @param resources what is covered: whole files, or pieces that tile their files
/// @param shards whether resources are pieces
/// @param shardSize the most bytes of a piece; 0 without pieces
/// @param allowSymlinks whether links inside the directory may stand for files
/// @param ignored paths that are said not to be covered, with all below them
public record ModelStatement(
        String model, Digest root, List<Resource> resources, boolean shards, long shardSize, boolean allowSymlinks,
        List<String> ignored) {
    static final String TYPE = "https://in-toto.io/Statement/v1";
    static final String PREDICATE_TYPE = "https://model_signing/signature/v1.0";

    /// Resource name of a model that is one file.
    static final String SINGLE_FILE = ".";

    private static final String INVALID = "MODEL_STATEMENT_INVALID";

    public ModelStatement {
        resources = List.copyOf(resources);
        ignored = List.copyOf(ignored);
    }

    /// A file or a piece of one.
    ///
    /// @param path within the directory, parts joined by `/`
    /// @param start first byte
    /// @param end byte after the last; -1 for the whole file, whatever its size
    public record Resource(String path, long start, long end, Digest digest) {
        boolean whole() {
            return end < 0;
        }

        /// As the list names it.
        String name() {
            return whole() ? path : path + ":" + start + ":" + end;
        }
    }

    /// Reads a payload whose signature holds.
    ///
    /// @param where names the bundle in messages
    /// @throws IntegrityException `MODEL_STATEMENT_INVALID`, `MODEL_BUNDLE_UNSUPPORTED` for digests of another kind,
    ///         `MODEL_ROOT_MISMATCH`
    static ModelStatement parse(byte[] payload, String where) {
        StrictJson statement = StrictJson.object(payload, where + ": statement", INVALID);
        expect(statement, "_type", TYPE);
        expect(statement, "predicateType", PREDICATE_TYPE);
        StrictJson[] subjects = statement.objects("subject");
        if (subjects.length != 1) {
            throw statement.problem("subject: expected one, got %d; sign one model".formatted(subjects.length));
        }
        Digest root = digest(subjects[0].object("digest"), "sha256");
        StrictJson predicate = statement.object("predicate");
        StrictJson serialization = predicate.object("serialization");
        boolean shards = shards(serialization);
        long shardSize = shards ? serialization.number("shard_size") : 0;
        if (shards && shardSize < 1) {
            throw serialization.problem("shard_size: expected a positive number, got " + shardSize + "; sign again");
        }
        String hashType = serialization.text("hash_type");
        requireSha256(serialization, "hash_type", hashType, shardSize);
        List<Resource> resources = new ArrayList<>();
        for (StrictJson one : predicate.objects("resources")) {
            String algorithm = one.text("algorithm");
            requireSha256(one, "algorithm", algorithm, shardSize);
            if (!algorithm.equals(hashType)) {
                throw one.problem("algorithm: expected hash_type's %s, got %s; sign again".formatted(hashType, algorithm));
            }
            resources.add(resource(one, shards));
        }
        if (resources.isEmpty()) {
            throw predicate.problem("resources: expected files, got none; sign a model that has some");
        }
        checkPaths(predicate, resources, shards, shardSize);
        Digest computed = rootOf(resources);
        if (!computed.equals(root)) {
            throw new IntegrityException("MODEL_ROOT_MISMATCH",
                    "%s: subject: expected the digest %s of the listed files, got %s; sign again"
                            .formatted(where, computed.hex(), root.hex()));
        }
        return new ModelStatement(subjects[0].text("name"), root, resources, shards, shardSize,
                serialization.has("allow_symlinks") && serialization.flag("allow_symlinks"),
                serialization.has("ignore_paths") ? List.of(serialization.texts("ignore_paths")) : List.of());
    }

    private static void expect(StrictJson object, String field, String expected) {
        String got = object.text(field);
        if (!got.equals(expected)) {
            throw object.problem("%s: expected %s, got \"%s\"; sign again".formatted(field, expected, Shown.text(got)));
        }
    }

    private static boolean shards(StrictJson serialization) {
        String method = serialization.text("method");
        return switch (method) {
            case "files" -> false;
            case "shards" -> true;
            default -> throw serialization.problem(
                    "method: expected files or shards, got \"%s\"; sign again".formatted(Shown.text(method)));
        };
    }

    private static void requireSha256(StrictJson object, String field, String algorithm, long shardSize) {
        boolean sharded = shardSize > 0 && algorithm.equals("sha256-sharded-" + shardSize);
        if (!algorithm.equals("sha256") && !sharded) {
            throw new IntegrityException("MODEL_BUNDLE_UNSUPPORTED", "%s: %s: expected sha256, got \"%s\"; sign again with sha256"
                    .formatted(object.where(), field, Shown.text(algorithm)));
        }
    }

    private static Digest digest(StrictJson object, String field) {
        String hex = object.text(field);
        if (!hex.matches("[0-9a-f]{64}")) {
            throw object.problem("%s: expected 64 lower-case hexadecimal digits, got \"%s\"; sign again"
                    .formatted(field, Shown.text(hex)));
        }
        return Digest.ofHex(hex);
    }

    private static Resource resource(StrictJson one, boolean shards) {
        String name = one.text("name");
        Digest digest = digest(one, "digest");
        if (!shards) {
            return new Resource(name, 0, -1, digest);
        }
        // A path may hold colons: the last two count.
        int second = name.lastIndexOf(':');
        int first = second < 0 ? -1 : name.lastIndexOf(':', second - 1);
        if (first < 0 || !number(name, first + 1, second) || !number(name, second + 1, name.length())) {
            throw one.problem("name: expected path:start:end, got \"%s\"; sign again".formatted(Shown.text(name)));
        }
        long start = Long.parseLong(name.substring(first + 1, second));
        long end = Long.parseLong(name.substring(second + 1));
        return new Resource(name.substring(0, first), start, end, digest);
    }

    /// One way to write a number only.
    private static boolean number(String text, int from, int to) {
        return text.substring(from, to).matches("0|[1-9][0-9]{0,17}");
    }

    private static void checkPaths(StrictJson predicate, List<Resource> resources, boolean shards, long shardSize) {
        Map<String, String> spellings = new HashMap<>();
        Set<String> names = new HashSet<>();
        Map<String, List<Resource>> files = new HashMap<>();
        for (Resource resource : resources) {
            String path = resource.path();
            String problem = path.equals(SINGLE_FILE) && (shards || resources.size() == 1) ? "" : problem(path);
            if (!problem.isEmpty()) {
                throw predicate.problem("resources: expected plain relative paths, got \"%s\", which %s; do not use this model"
                        .formatted(Shown.text(path), problem));
            }
            if (!names.add(resource.name())) {
                throw predicate.problem("resources: expected every file once, got \"%s\" twice; sign again"
                        .formatted(Shown.text(resource.name())));
            }
            String other = spellings.putIfAbsent(Normalizer.normalize(path, Normalizer.Form.NFC), path);
            if (other != null && !other.equals(path)) {
                throw predicate.problem("resources: expected one spelling of \"%s\", got two that look alike; do not use this model"
                        .formatted(Shown.text(path)));
            }
            files.computeIfAbsent(path, p -> new ArrayList<>()).add(resource);
        }
        if (files.containsKey(SINGLE_FILE) && files.size() > 1) {
            throw predicate.problem("resources: expected \".\" alone, got other files beside it; do not use this model");
        }
        if (shards) {
            files.values().forEach(pieces -> checkTiles(predicate, pieces, shardSize));
        }
    }

    /// What is wrong with a path, or nothing.
    static String problem(String path) {
        if (path.isEmpty()) {
            return "is empty";
        }
        if (path.indexOf('\\') >= 0) {
            return "has a backslash";
        }
        if (path.indexOf('\0') >= 0) {
            return "has a NUL";
        }
        if (path.startsWith("/") || path.matches("[A-Za-z]:(/.*)?")) {
            return "is absolute";
        }
        for (String part : path.split("/", -1)) {
            switch (part) {
                case "" -> {
                    return "has an empty part";
                }
                case "." -> {
                    return "has a part .";
                }
                case ".." -> {
                    return "has a part ..";
                }
                default -> { }
            }
        }
        return "";
    }

    /// Pieces of a file follow one another from its beginning, so that their last end is the size that was signed.
    private static void checkTiles(StrictJson predicate, List<Resource> pieces, long shardSize) {
        List<Resource> sorted = pieces.stream().sorted(java.util.Comparator.comparingLong(Resource::start)).toList();
        long at = 0;
        for (Resource piece : sorted) {
            boolean empty = piece.end() == 0 && sorted.size() == 1;
            if (piece.start() != at || piece.end() <= at && !empty || piece.end() - piece.start() > shardSize) {
                throw predicate.problem("resources: expected pieces of at most %d bytes that follow one another, got \"%s\" at %d; sign again"
                        .formatted(shardSize, Shown.text(piece.name()), at));
            }
            at = piece.end();
        }
    }

    /// SHA-256 over the digests of the resources, in their order.
    static Digest rootOf(List<Resource> resources) {
        MessageDigest sha = Digest.newSha256();
        resources.forEach(resource -> sha.update(resource.digest().bytes()));
        return Digest.of(sha.digest());
    }
}

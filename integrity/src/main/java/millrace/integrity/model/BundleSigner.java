package millrace.integrity.model;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;
import millrace.integrity.model.ModelStatement.Resource;

/// Makes bundles as model_signing 1.1.0 makes them.
///
/// Files stand in the order of their paths, part by part, each compared by code points; pieces of a file in the order of
/// their beginning. Verifiers take the order as it is.
public final class BundleSigner {
    /// Bytes of a piece, as the tool cuts.
    public static final long SHARD_BYTES = 1_000_000_000;

    private BundleSigner() {}

    /// Hashes the files of a model and signs the list.
    ///
    /// @param model name of the subject
    /// @param own files that belong to signing and not to the model: the bundle
    /// @param shardBytes signs pieces of so many bytes, which are hashed side by side; 0 signs whole files
    /// @return the bundle's file
    /// @throws IntegrityException `MODEL_FILE_UNSIGNABLE`
    public static byte[] sign(
            ModelSigningKey key,
            String model,
            ModelContents contents,
            Set<String> own,
            long shardBytes,
            int threads,
            SignedModel.Progress progress)
            throws IOException {
        Set<String> ignored = new TreeSet<>(SignedModel.NEVER);
        ignored.addAll(own);
        List<Resource> pieces = pieces(contents, ignored, shardBytes);
        if (pieces.isEmpty()) {
            throw new IntegrityException("MODEL_FILE_UNSIGNABLE", "%s: expected files, got none; name the model's directory"
                    .formatted(Shown.text(model)));
        }
        long total = pieces.stream().mapToLong(piece -> piece.end() - piece.start()).sum();
        AtomicLong done = new AtomicLong();
        LongConsumer advance = bytes -> progress.at(done.addAndGet(bytes), total);
        List<Callable<Digest>> tasks = new ArrayList<>();
        for (Resource piece : pieces) {
            tasks.add(() -> contents.sha256(piece.path(), piece.start(), piece.end(), advance));
        }
        List<Digest> digests = Hashing.all(tasks, threads);
        List<Resource> resources = new ArrayList<>();
        for (int i = 0; i < pieces.size(); i++) {
            Resource piece = pieces.get(i);
            resources.add(new Resource(piece.path(), piece.start(), shardBytes > 0 ? piece.end() : -1, digests.get(i)));
        }
        byte[] payload = payload(new ModelStatement(model, ModelStatement.rootOf(resources), resources, shardBytes > 0,
                shardBytes, false, List.copyOf(ignored)));
        return bundle(payload, key.sign(ModelBundle.signedBytes(payload)), key.hint());
    }

    private static List<Resource> pieces(ModelContents contents, Set<String> ignored, long shardBytes) {
        List<String> paths = new ArrayList<>();
        for (String path : contents.sizes().keySet()) {
            if (ignored.contains(path) || ignored.stream().anyMatch(one -> path.startsWith(one + "/"))) {
                continue;
            }
            String problem = path.equals(ModelStatement.SINGLE_FILE) ? "" : ModelStatement.problem(path);
            String oddity = problem.isEmpty() ? contents.oddity(path, false) : "a name that " + problem;
            if (!oddity.isEmpty()) {
                throw new IntegrityException("MODEL_FILE_UNSIGNABLE",
                        "%s: expected a regular file with a plain name, got %s; replace it, or move it out of the model"
                                .formatted(Shown.text(path), oddity));
            }
            paths.add(path);
        }
        paths.sort(BY_PARTS);
        List<Resource> pieces = new ArrayList<>();
        for (String path : paths) {
            long size = contents.sizes().get(path);
            long step = shardBytes > 0 ? shardBytes : Math.max(1, size);
            if (shardBytes == 0 && size == 0) {
                pieces.add(new Resource(path, 0, 0, Digest.ZERO));
            }
            for (long start = 0; start < size; start += step) {
                pieces.add(new Resource(path, start, Math.min(size, start + step), Digest.ZERO));
            }
        }
        return pieces;
    }

    /// The tool's order: tuples of the parts of the paths.
    static final Comparator<String> BY_PARTS = (a, b) -> {
        String[] left = a.split("/");
        String[] right = b.split("/");
        for (int i = 0; i < Math.min(left.length, right.length); i++) {
            // Points, not units of UTF-16, which would put the rarest characters before some common ones.
            int order = Arrays.compare(left[i].codePoints().toArray(), right[i].codePoints().toArray());
            if (order != 0) {
                return order;
            }
        }
        return left.length - right.length;
    };

    static byte[] payload(ModelStatement statement) {
        ObjectNode node = StrictJson.mapper().createObjectNode();
        node.put("_type", ModelStatement.TYPE);
        node.putArray("subject").addObject().put("name", statement.model()).putObject("digest")
                .put("sha256", statement.root().hex());
        node.put("predicateType", ModelStatement.PREDICATE_TYPE);
        ObjectNode predicate = node.putObject("predicate");
        ArrayNode resources = predicate.putArray("resources");
        statement.resources().forEach(one -> resources.addObject()
                .put("name", one.name())
                .put("algorithm", "sha256")
                .put("digest", one.digest().hex()));
        ObjectNode serialization = predicate.putObject("serialization");
        serialization.put("method", statement.shards() ? "shards" : "files").put("hash_type", "sha256");
        serialization.put("allow_symlinks", statement.allowSymlinks());
        if (statement.shards()) {
            serialization.put("shard_size", statement.shardSize());
        }
        ArrayNode ignored = serialization.putArray("ignore_paths");
        statement.ignored().forEach(ignored::add);
        return bytes(node);
    }

    static byte[] bundle(byte[] payload, byte[] signature, String hint) {
        Base64.Encoder base64 = Base64.getEncoder();
        ObjectNode node = StrictJson.mapper().createObjectNode();
        node.put("mediaType", ModelBundle.MEDIA_TYPE);
        ObjectNode material = node.putObject("verificationMaterial");
        material.putObject("publicKey").put("hint", hint);
        material.putArray("tlogEntries");
        ObjectNode envelope = node.putObject("dsseEnvelope");
        envelope.put("payload", base64.encodeToString(payload)).put("payloadType", ModelBundle.PAYLOAD_TYPE);
        envelope.putArray("signatures").addObject().put("sig", base64.encodeToString(signature)).put("keyid", "");
        return bytes(node);
    }

    private static byte[] bytes(ObjectNode node) {
        try {
            return StrictJson.mapper().writeValueAsString(node).getBytes(StandardCharsets.UTF_8);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of JSON nodes can be written", e);
        }
    }
}

package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.engine.ActivationTop;
import millrace.engine.Transcript;
import millrace.integrity.ActivationProof;
import millrace.integrity.Commitment;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProofsTest {
    @TempDir
    Path directory;

    private ServiceDriver service;

    @AfterEach
    void theLogVerifies() {
        service.verify();
        service.close();
    }

    @Test
    void provesActivationsInTheCompletionAndCommitsToThemInTheLeaf() {
        service = new ServiceDriver(directory, Map.of());
        int[] indices = IntStream.range(0, ActivationTop.COUNT).map(i -> 7 * i).toArray();
        int[] bits = IntStream.range(0, ActivationTop.COUNT).map(i -> 0x4000 + i).toArray();
        ActivationTop top = new ActivationTop(indices, bits);
        service.send(prompt("r-1", "hello").build());
        service.engine.end("r-1", ScriptedEngine.result(service.engine.submitted.getFirst().prompt, "answer",
                new Transcript(2, true, false, 0, 1, 0, 0, 0, List.of(), List.of(top, top))));
        service.turn();

        Completion completion = service.completion(0);
        byte[] proofs = completion.getActivationProofs().array();
        assertThat(proofs).hasSize(2 * ActivationProof.BYTES);
        assertThat(ActivationProof.parse(Arrays.copyOf(proofs, ActivationProof.BYTES)).compare(indices, bits).matches())
                .isEqualTo(ActivationTop.COUNT);
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getLevel()).isEqualTo(2);
        assertThat(leaf.getProofsCommit()).isEqualTo(Commitment.proofs(completion.getSalt().array(), proofs).toHash());
    }
}

package millrace.engine.kernel.ffi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the compiler made of the kernels: a register tile that does not stay in registers computes the same bits, and
/// nobody would notice but by its slowness.
final class NativeCodeTest {
    private static final Pattern INSTRUCTION = Pattern.compile("\\s+([0-9a-f]+):\\s+(\\S+)\\s*(.*)");
    private static final Pattern FROM_STACK = Pattern.compile("-?0x[0-9a-f]+\\(%rsp\\),.*%zmm\\d+.*");
    private static final int LOOP_OF_A_TILE = 8;

    @TempDir
    Path dir;

    @Test
    void innerLoopsShouldNotReloadVectorsFromTheStack() throws IOException, InterruptedException {
        List<String> found = new ArrayList<>();
        List<Instruction> code = disassemble();
        int loops = 0;
        for (int i = 0; i < code.size(); i++) {
            int from = code.get(i).backTo(code, i);
            if (from < 0) {
                continue;
            }
            List<Instruction> body = code.subList(from, i);
            boolean innermost = body.stream().noneMatch(Instruction::jumps);
            if (innermost && body.stream().filter(in -> in.wide() && in.multiplies()).count() >= LOOP_OF_A_TILE) {
                loops++;
                body.stream().filter(Instruction::reloads).forEach(in -> found.add(in.toString()));
            }
        }
        assertThat(loops).as("loops of AVX-512 multiply-adds").isGreaterThan(5);
        assertThat(found).isEmpty();
    }

    private List<Instruction> disassemble() throws IOException, InterruptedException {
        String platform = NativeLibrary.platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        assumeTrue(platform.equals("linux-x86_64"), "the check reads x86-64 code");
        Path library = dir.resolve("libmillrace.so");
        try (InputStream in = NativeLibrary.class.getResourceAsStream("/native/" + platform + "/libmillrace.so")) {
            assumeTrue(in != null, "built without a C compiler");
            Files.copy(in, library);
        }
        Process process;
        try {
            process = new ProcessBuilder("objdump", "-d", "--no-show-raw-insn", library.toString())
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            assumeTrue(false, "objdump is not installed");
            throw e;
        }
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).isZero();
        List<Instruction> code = new ArrayList<>();
        for (String line : text.split("\n")) {
            Matcher m = INSTRUCTION.matcher(line);
            if (m.matches()) {
                code.add(new Instruction(Long.parseLong(m.group(1), 16), m.group(2), m.group(3)));
            }
        }
        return code;
    }

    private record Instruction(long address, String name, String operands) {
        boolean jumps() {
            return name.startsWith("j");
        }

        boolean wide() {
            return operands.contains("%zmm");
        }

        boolean multiplies() {
            return name.startsWith("vfmadd") || name.equals("vpdpwssd") || name.equals("vpmaddwd");
        }

        boolean reloads() {
            return FROM_STACK.matcher(operands).matches();
        }

        /// The index of the instruction that this one, at `index`, jumps back to; −1 if it does not.
        int backTo(List<Instruction> code, int index) {
            if (!jumps() || !operands.matches("[0-9a-f]+.*")) {
                return -1;
            }
            long target = Long.parseLong(operands.split("\\s")[0], 16);
            int i = index;
            while (i > 0 && code.get(i).address > target) {
                i--;
            }
            return i < index && code.get(i).address == target ? i : -1;
        }
    }
}

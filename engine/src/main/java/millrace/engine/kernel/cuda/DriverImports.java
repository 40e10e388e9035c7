package millrace.engine.kernel.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.TreeSet;

/// Functions of the driver that JCuda's library asks for. They are looked up when they are called, so one that a driver
/// lacks ends the process at that moment and not at the start.
final class DriverImports {
    private static final int MAGIC = 0x464C_457F;
    private static final int DYNSYM = 11;
    private static final int SYMBOL_BYTES = 24;

    private DriverImports() {}

    /// Undefined symbols of an ELF library of 64 bits, little-endian, that begin with `cu`.
    ///
    /// @throws IllegalArgumentException for other bytes
    static List<String> of(byte[] library) {
        ByteBuffer elf = ByteBuffer.wrap(library).order(ByteOrder.LITTLE_ENDIAN);
        if (library.length < 64 || elf.getInt(0) != MAGIC || elf.get(4) != 2 || elf.get(5) != 1) {
            throw new IllegalArgumentException("library: expected ELF of 64 bits, little-endian");
        }
        int sections = Math.toIntExact(elf.getLong(0x28));
        int sectionBytes = elf.getShort(0x3A);
        for (int i = 0; i < elf.getShort(0x3C); i++) {
            int at = sections + i * sectionBytes;
            if (elf.getInt(at + 4) == DYNSYM) {
                return undefined(elf, at, sections + elf.getInt(at + 0x28) * sectionBytes);
            }
        }
        throw new IllegalArgumentException("library: expected a table of dynamic symbols, got none");
    }

    private static List<String> undefined(ByteBuffer elf, int symbols, int strings) {
        var names = new TreeSet<String>();
        long from = elf.getLong(symbols + 0x18);
        long to = from + elf.getLong(symbols + 0x20);
        for (int at = Math.toIntExact(from); at < to; at += SYMBOL_BYTES) {
            if (elf.getShort(at + 6) == 0) {
                String name = text(elf, Math.toIntExact(elf.getLong(strings + 0x18)) + elf.getInt(at));
                if (name.startsWith("cu")) {
                    names.add(name);
                }
            }
        }
        return List.copyOf(names);
    }

    private static String text(ByteBuffer elf, int at) {
        int end = at;
        while (elf.get(end) != 0) {
            end++;
        }
        byte[] bytes = new byte[end - at];
        elf.get(at, bytes);
        return new String(bytes, StandardCharsets.US_ASCII);
    }
}

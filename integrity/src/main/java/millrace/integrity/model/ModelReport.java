package millrace.integrity.model;

import java.util.List;
import millrace.integrity.IntegrityException;

/// Every file of a model and every file that its signature lists, with what was found.
///
/// @param files signed ones in the order of the list, then the others in order of name
public record ModelReport(List<FileReport> files) {
    public ModelReport {
        files = List.copyOf(files);
    }

    /// What a file is.
    public enum State {
        /// Its bytes are the signed ones.
        OK,
        /// Signed, and its bytes are other ones.
        MISMATCH,
        /// Signed and not there.
        MISSING,
        /// There and not signed.
        UNSIGNED,
        /// There, and left out of signatures on purpose.
        IGNORED,
        /// Signed and not read: nothing depends on it.
        UNREAD
    }

    /// @param bytes size; -1 where there is no file
    /// @param code empty unless something is wrong
    /// @param message where, what was expected, what came and what to do
    public record FileReport(String path, State state, long bytes, String code, String message) {
        boolean wrong() {
            return !code.isEmpty();
        }
    }

    /// Whether the model is what was signed and nothing else.
    public boolean holds() {
        return files.stream().noneMatch(FileReport::wrong);
    }

    /// What is wrong, each with its code.
    public List<String> problems() {
        return files.stream().filter(FileReport::wrong).map(file -> file.code() + ": " + file.message()).toList();
    }

    /// The first thing that is wrong.
    ///
    /// @throws IntegrityException with the code of the file's report
    public void require() {
        files.stream().filter(FileReport::wrong).findFirst().ifPresent(file -> {
            throw new IntegrityException(file.code(), file.message());
        });
    }

    public long count(State state) {
        return files.stream().filter(file -> file.state() == state).count();
    }
}

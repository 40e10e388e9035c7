package millrace.streams;

import millrace.schemas.Prompt;

/// Turns a record's value into a prompt.
interface PromptDecoder {
    /// @throws UndecodableException when these bytes can never be read
    /// @throws RegistryUnavailableException when they may be readable once the registry answers
    Prompt decode(Source source);

    /// The bytes are no prompt, and never will be.
    final class UndecodableException extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final String code;

        UndecodableException(String code, String message) {
            super(message, null, false, false);
            this.code = code;
        }

        String code() {
            return code;
        }
    }

    /// The schema of the bytes is not known yet, and the registry does not answer.
    final class RegistryUnavailableException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        RegistryUnavailableException(String message) {
            super(message, null, false, false);
        }
    }
}

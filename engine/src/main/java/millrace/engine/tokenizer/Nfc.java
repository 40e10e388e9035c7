package millrace.engine.tokenizer;

import java.text.Normalizer;

/// Unicode normalisation form C in bounded time.
///
/// The platform's normaliser sorts a run of combining marks by insertion, so a megabyte of alternating marks would take
/// hours. Runs longer than [#MAX_MARKS], which no language has, are normalised in slices.
final class Nfc {
    private static final int MAX_MARKS = 1024;

    private Nfc() {}

    static String normalize(String text) {
        StringBuilder result = null;
        int done = 0;
        int marks = 0;
        int i = 0;
        while (i < text.length()) {
            int c = text.codePointAt(i);
            marks = isMark(c) ? marks + 1 : 0;
            if (marks > MAX_MARKS) {
                result = result == null ? new StringBuilder(text.length()) : result;
                result.append(Normalizer.normalize(text.substring(done, i), Normalizer.Form.NFC));
                done = i;
                marks = 1;
            }
            i += Character.charCount(c);
        }
        String rest = Normalizer.normalize(text.substring(done), Normalizer.Form.NFC);
        return result == null ? rest : result.append(rest).toString();
    }

    private static boolean isMark(int c) {
        int type = Character.getType(c);
        return type == Character.NON_SPACING_MARK
                || type == Character.ENCLOSING_MARK
                || type == Character.COMBINING_SPACING_MARK;
    }
}

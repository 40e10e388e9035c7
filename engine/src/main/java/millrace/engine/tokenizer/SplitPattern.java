package millrace.engine.tokenizer;

import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import millrace.engine.InvalidModelException;

/// A split pattern of a tokenizer, translated for `java.util.regex`.
///
/// @param trusted one of the patterns that were read and found linear; any other runs on a budget
record SplitPattern(Pattern pattern, boolean trusted) {
    static final String LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
            + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static final String QWEN2 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
            + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static final String GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    static final String DEEPSEEK_DIGITS = "\\p{N}{1,3}";
    static final String DEEPSEEK_CJK = "[一-龥\u3040-ゟ゠-ヿ]+";
    static final String DEEPSEEK_WORDS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
            + "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    private static final String KIMI_LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]";
    private static final String KIMI_UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]";
    private static final String KIMI_ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    static final String KIMI = "[\\p{Han}]+"
            + "|[^\\r\\n\\p{L}\\p{N}]?" + KIMI_UPPER + "*" + KIMI_LOWER + "+" + KIMI_ENDING
            + "|[^\\r\\n\\p{L}\\p{N}]?" + KIMI_UPPER + "+" + KIMI_LOWER + "*" + KIMI_ENDING
            + "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

    private static final Set<String> TRUSTED =
            Set.of(LLAMA3, QWEN2, GPT2, DEEPSEEK_DIGITS, DEEPSEEK_CJK, DEEPSEEK_WORDS, KIMI, "\\p{N}", "\\p{N}+");

    static SplitPattern trusted(String regex) {
        return compile("", regex);
    }

    /// A pattern that matches exactly this text.
    static SplitPattern literal(String text) {
        return new SplitPattern(Pattern.compile(text, Pattern.LITERAL), true);
    }

    /// @throws InvalidModelException TOK_REGEX for a pattern whose stack or meaning cannot be vouched for
    static SplitPattern compile(String where, String regex) {
        boolean trusted = TRUSTED.contains(regex);
        if (!trusted) {
            SplitPatternCheck.check(where, regex);
        }
        // Rust's and Oniguruma's classes are Unicode's, and so is their folding: 'ſ counts as 's.
        String translated = regex.replace("\\p{Han}", "\\p{IsHan}").replace("(?i:", "(?iu:");
        try {
            return new SplitPattern(
                    Pattern.compile(translated, Pattern.UNICODE_CHARACTER_CLASS | Pattern.UNIX_LINES), trusted);
        } catch (PatternSyntaxException e) {
            throw SplitPatternCheck.refused(where, regex, e.getDescription());
        }
    }
}

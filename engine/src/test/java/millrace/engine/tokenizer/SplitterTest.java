package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.EngineException;
import millrace.engine.InvalidModelException;
import millrace.engine.InvalidRequestException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SplitterTest {
    private static final String TEXT = "“Hello,” 世界世世世界世界——I'm ChatGPT. CAN'T wait 'til 2026.世界世界";

    private static List<String> split(String text, Splitter.Stage... stages) {
        List<String> pieces = new ArrayList<>();
        new Splitter(List.of(stages)).split(text, (from, to) -> pieces.add(text.substring(from, to)));
        return pieces;
    }

    private static List<String> split(String text, String... patterns) {
        Splitter.Stage[] stages = new Splitter.Stage[patterns.length];
        for (int i = 0; i < stages.length; i++) {
            stages[i] = Splitter.Stage.isolated(SplitPattern.compile("test", patterns[i]));
        }
        return split(text, stages);
    }

    @Test
    void splitsAsKimiDoes() {
        assertThat(split(TEXT, SplitPattern.KIMI))
                .containsExactly(
                        "“Hello",
                        ",”",
                        " ",
                        "世界世世世界世界",
                        "——",
                        "I'm",
                        " Chat",
                        "GPT",
                        ".",
                        " CAN'T",
                        " wait",
                        " '",
                        "til",
                        " ",
                        "202",
                        "6",
                        ".",
                        "世界世界");
    }

    @Test
    void splitsAsGlmAndLlamaDo() {
        assertThat(split(TEXT, SplitPattern.LLAMA3))
                .containsExactly(
                        "“Hello",
                        ",”",
                        " 世界世世世界世界",
                        "——",
                        "I",
                        "'m",
                        " ChatGPT",
                        ".",
                        " CAN",
                        "'T",
                        " wait",
                        " '",
                        "til",
                        " ",
                        "202",
                        "6",
                        ".世界世界");
    }

    @Test
    void splitsWhiteSpaceOfAllKinds() {
        assertThat(split("a\u3000\u3000b\u00a0c  \n\n  d", SplitPattern.LLAMA3))
                .containsExactly("a", "\u3000", "\u3000b", "\u00a0c", "  \n\n", " ", " d");
        assertThat(split("a\u3000\u3000b\u00a0c  \n\n  d", SplitPattern.KIMI))
                .containsExactly("a", "\u3000", "\u3000b", "\u00a0c", "  \n\n", " ", " d");
        assertThat(split("x\u0085\u0085y", SplitPattern.LLAMA3)).containsExactly("x", "\u0085", "\u0085y");
    }

    @Test
    void splitsAsQwenDeepSeekAndGpt2Do() {
        assertThat(split("in 2026", SplitPattern.QWEN2)).containsExactly("in", " ", "2", "0", "2", "6");
        assertThat(split(
                        "ab 12345 世界x!y",
                        SplitPattern.DEEPSEEK_DIGITS,
                        SplitPattern.DEEPSEEK_CJK,
                        SplitPattern.DEEPSEEK_WORDS))
                .containsExactly("ab", " ", "123", "45", " ", "世界", "x", "!y");
        assertThat(split("I'm 42!", SplitPattern.GPT2)).containsExactly("I", "'m", " 42", "!");
    }

    @Test
    void looksAtEachPieceOfAStageAsAWhole() {
        // after the first stage the blanks end their piece, so the lookahead sees an end and not the 1
        assertThat(split("a  1", "\\p{N}", SplitPattern.GPT2)).containsExactly("a", "  ", "1");
    }

    @Test
    void treatsMatchesAsHuggingFaceDoes() {
        SplitPattern dash = SplitPattern.literal("-");
        String text = "the-final--countdown";
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.ISOLATED, false)))
                .containsExactly("the", "-", "final", "-", "-", "countdown");
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.REMOVED, false)))
                .containsExactly("the", "final", "countdown");
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.REMOVED, true)))
                .containsExactly("-", "-", "-");
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.MERGED_WITH_PREVIOUS, false)))
                .containsExactly("the-", "final-", "-", "countdown");
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.MERGED_WITH_NEXT, false)))
                .containsExactly("the", "-final", "-", "-countdown");
        assertThat(split(text, new Splitter.Stage(dash, Splitter.Behavior.CONTIGUOUS, false)))
                .containsExactly("the", "-", "final", "--", "countdown");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '#',
            quoteCharacter = '`',
            value = {
                "(a+)+$#a repeated group",
                "(?:ab)*#a repeated group",
                "(?:ab){2,3}#a repeated group",
                "(a)??#a group with a lazy or possessive quantifier",
                "a+?#a lazy quantifier",
                "a{2,}#a count without an upper end",
                "a{65}#a count above 64",
                "a+*#a quantifier of a quantifier",
                "*a#a quantifier without anything to repeat",
                "(a)\\1#the escape \\1",
                "\\Qa\\E#the escape \\Q",
                "(?<=a)b#the group \"(?<=\"",
                "(?s)a#the group \"(?s)\"",
                "a$#the anchor $",
                "[a#a class without an end",
                "\\pL#a property without braces",
                "\\#a backslash at the end",
                "(a#Unclosed group",
                "\\p{Nonsense}#Unknown character property name {Nonsense}"
            })
    void refusesAPatternThatItCannotVouchFor(String regex, String why) {
        assertThatThrownBy(() -> SplitPattern.compile("tokenizer.json", regex))
                .isInstanceOf(InvalidModelException.class)
                .hasMessage("tokenizer.json: split pattern \"" + regex + "\": expected classes, alternatives, lookahead"
                        + " and groups that occur once, got " + why)
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TOK_REGEX");
    }

    @Test
    void refusesDeepOrLongPatterns() {
        assertThatThrownBy(() -> SplitPattern.compile("t", "(".repeat(17) + ")".repeat(17)))
                .hasMessageEndingWith("got groups nested deeper than 16");
        assertThatThrownBy(() -> SplitPattern.compile("t", "[a".repeat(40)))
                .hasMessageEndingWith("got classes nested deeper than 16");
        assertThatThrownBy(() -> SplitPattern.compile("t", "a".repeat(4097)))
                .hasMessage("t: split pattern: expected at most 4096 characters, got 4097");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\\p{L}++|\\p{N}|[^\\p{L}\\p{N}]+",
                "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}]*[\\p{Ll}&&[^\\p{Han}]]+(?i:'s|'t)?|\\s+(?!\\S)|\\s+|.",
                "(?:a|b)?c{1,64}|[\\]\\[]|\\x41"
            })
    void acceptsWhatTokenizersUse(String regex) {
        assertThat(SplitPattern.compile("t", regex).trusted()).isFalse();
    }

    @Test
    @Timeout(120)
    void boundsTheTimeOfAnUnknownPattern() {
        String text = "a".repeat(1 << 19);
        assertThatThrownBy(() -> split(text, "a*a*a*a*b"))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessage("prompt: the model's split pattern: expected at most 128 reads per character,"
                        + " got more on 524288 characters; shorten runs of like characters")
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("PROMPT_TOO_COMPLEX");
        assertThat(split(text, "[ab]+|\\s+")).containsExactly(text);
    }

    @Test
    @Timeout(120)
    void neverOverflowsTheStack() {
        // pairs of surrogates change the width of a character, where java.util.regex recurses on counted repeats
        String mixed = "a😀".repeat(1 << 16);
        for (String pattern : List.of(
                SplitPattern.LLAMA3,
                SplitPattern.QWEN2,
                SplitPattern.GPT2,
                SplitPattern.KIMI,
                SplitPattern.DEEPSEEK_WORDS,
                ".{1,64}",
                "[a😀]+",
                "[a😀]++")) {
            List<String> pieces = split(mixed, pattern);
            assertThat(String.join("", pieces)).isEqualTo(mixed);
        }
        String letters = "𝐀a".repeat(1 << 16);
        for (String pattern : List.of(SplitPattern.LLAMA3, SplitPattern.KIMI, SplitPattern.DEEPSEEK_WORDS)) {
            assertThat(String.join("", split(letters, pattern))).isEqualTo(letters);
        }
    }
}

package millrace.engine.tokenizer;

import millrace.engine.InvalidModelException;

/// Decides whether an unknown split pattern may be run.
///
/// `java.util.regex` recurses where a *group* is repeated, so that a long text overflows the stack; repeated
/// characters and classes are loops. Allowed is what tokenizers use: classes and characters, repeated greedily or
/// possessively, alternatives, groups that occur at most once, lookahead. Time is bounded where the pattern is run.
final class SplitPatternCheck {
    private static final int MAX_LENGTH = 4096;
    private static final int MAX_DEPTH = 16;
    private static final int MAX_COUNT = 64;

    private final String where;
    private final String regex;
    private int at;

    private SplitPatternCheck(String where, String regex) {
        this.where = where;
        this.regex = regex;
    }

    static void check(String where, String regex) {
        if (regex.length() > MAX_LENGTH) {
            throw new InvalidModelException(
                    "TOK_REGEX",
                    "%s: split pattern: expected at most %d characters, got %d"
                            .formatted(where, MAX_LENGTH, regex.length()));
        }
        new SplitPatternCheck(where, regex).run();
    }

    static InvalidModelException refused(String where, String regex, String why) {
        String shown = regex.length() <= 80 ? regex : regex.substring(0, 80) + "…";
        return new InvalidModelException(
                "TOK_REGEX",
                ("%s: split pattern \"%s\":"
                                + " expected classes, alternatives, lookahead and groups that occur once, got %s")
                        .formatted(where, shown, why));
    }

    private void run() {
        int depth = 0;
        while (at < regex.length()) {
            char c = regex.charAt(at++);
            switch (c) {
                case '(' -> {
                    if (++depth > MAX_DEPTH) {
                        throw refuse("groups nested deeper than " + MAX_DEPTH);
                    }
                    groupHead();
                }
                case ')' -> {
                    depth--;
                    groupTail();
                }
                case '[' -> {
                    characterClass(0);
                    quantifier();
                }
                case '\\' -> {
                    escape();
                    quantifier();
                }
                case '^', '$' -> throw refuse("the anchor " + c);
                case '|' -> {}
                case '*', '+', '?', '{' -> throw refuse("a quantifier without anything to repeat");
                default -> quantifier();
            }
        }
    }

    private void groupHead() {
        if (at < regex.length() && regex.charAt(at) != '?') {
            return;
        }
        for (String head : new String[] {"?:", "?i:", "?=", "?!"}) {
            if (regex.startsWith(head, at)) {
                at += head.length();
                return;
            }
        }
        throw refuse("the group \"(" + regex.substring(at, Math.min(regex.length(), at + 3)) + "\"");
    }

    private void groupTail() {
        if (peek('?')) {
            at++;
            if (peek('?') || peek('+') || peek('*')) {
                throw refuse("a group with a lazy or possessive quantifier");
            }
        } else if (peek('*') || peek('+') || peek('{')) {
            throw refuse("a repeated group");
        }
    }

    private void escape() {
        if (at == regex.length()) {
            throw refuse("a backslash at the end");
        }
        char c = regex.charAt(at++);
        if (c == 'p' || c == 'P') {
            int end = regex.indexOf('}', at);
            if (!peek('{') || end < 0) {
                throw refuse("a property without braces");
            }
            at = end + 1;
        } else if ((Character.isLetterOrDigit(c)) && "dDsSwWrnftux0".indexOf(c) < 0) {
            throw refuse("the escape \\" + c);
        }
    }

    private void characterClass(int depth) {
        if (depth > MAX_DEPTH) {
            throw refuse("classes nested deeper than " + MAX_DEPTH);
        }
        if (peek('^')) {
            at++;
        }
        while (at < regex.length()) {
            char c = regex.charAt(at++);
            if (c == ']') {
                return;
            } else if (c == '\\') {
                escape();
            } else if (c == '[') {
                characterClass(depth + 1);
            }
        }
        throw refuse("a class without an end");
    }

    private void quantifier() {
        if (peek('{')) {
            int end = regex.indexOf('}', at);
            if (end < 0 || !regex.substring(at + 1, end).matches("[0-9]{1,3}(,[0-9]{1,3})?")) {
                throw refuse("a count without an upper end");
            }
            String[] bounds = regex.substring(at + 1, end).split(",");
            if (Integer.parseInt(bounds[bounds.length - 1]) > MAX_COUNT) {
                throw refuse("a count above " + MAX_COUNT);
            }
            at = end + 1;
        } else if (peek('*') || peek('+') || peek('?')) {
            at++;
        } else {
            return;
        }
        if (peek('?')) {
            throw refuse("a lazy quantifier");
        }
        if (peek('+')) {
            at++;
        }
        if (peek('*') || peek('{')) {
            throw refuse("a quantifier of a quantifier");
        }
    }

    private boolean peek(char c) {
        return at < regex.length() && regex.charAt(at) == c;
    }

    private InvalidModelException refuse(String why) {
        return refused(where, regex, why);
    }
}

package millrace.engine.kv;

import java.util.Arrays;

/// The names of one sequence's full pages, for a [PrefixIndex] and a [PageGuard], computed as far as they were asked for. It outlives a
/// preemption. Used by one thread at a time.
public final class PrefixKey {
    private final String salt;
    private long[] chain = new long[0];

    /// Names beyond h₀.
    private int pages;

    private long[] idTags = new long[0];

    /// Pages whose id tag is known.
    private int tagged;

    /// Tokens behind a page that its name covers.
    private int ahead;

    /// @param salt who may share pages with the sequence: those with an equal salt
    public PrefixKey(String salt) {
        this.salt = salt;
    }

    String salt() {
        return salt;
    }

    /// The tokens behind the first `length` have changed: forgets the names that depend on them.
    public void keep(int length) {
        pages = Math.min(pages, Math.max(0, length - ahead) / PrefixIndex.TOKENS);
        tagged = Math.min(tagged, pages);
    }

    /// Computes the names up to that of the page.
    void reach(ChainHash hash, int page, int[] tokens) {
        if (chain.length == 0) {
            chain = hash.root(salt);
            ahead = hash.ahead();
        }
        if (ChainHash.WORDS * (page + 2) > chain.length) {
            chain = Arrays.copyOf(chain, Math.max(ChainHash.WORDS * (page + 2), 2 * chain.length));
        }
        while (pages <= page) {
            hash.next(chain, pages, tokens, hash.from(pages), hash.to(pages));
            pages++;
        }
    }

    /// What the page is, as [PageSeal] says.
    long idTag(ChainHash hash, PageSeal seal, int page, int[] tokens) {
        reach(hash, page, tokens);
        if (page >= idTags.length) {
            idTags = Arrays.copyOf(idTags, Math.max(page + 1, 2 * idTags.length));
        }
        while (tagged <= page) {
            idTags[tagged] = seal.idTag(chain, tagged, 0);
            tagged++;
        }
        return idTags[page];
    }

    /// Word of the page's name.
    long word(int page, int i) {
        return chain[ChainHash.WORDS * (page + 1) + i];
    }
}

package millrace.engine.kv;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The names of one sequence's full pages, for a [PrefixIndex] and a [PageGuard], computed as far as they were asked for. It outlives a
/// preemption. Used by one thread at a time.
///
/// Where pages have a draft layer, a sequence that is not fed to it fills pages which lack that part. They have names of their
/// own ([#undrafted]); who is looking for such pages can do with whole ones too, never the other way round.
public final class PrefixKey {
    private final String salt;

    /// The names of whole pages of the same tokens; null where these are such.
    private final @Nullable PrefixKey whole;

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
        this(salt, null);
    }

    private PrefixKey(String salt, @Nullable PrefixKey whole) {
        this.salt = salt;
        this.whole = whole;
    }

    /// The names of the same sequence's pages where the part of the draft layer is not filled.
    public PrefixKey undrafted() {
        return new PrefixKey(salt, this);
    }

    /// The names of pages that serve as well as those of this key, and are more; null if there are none.
    @Nullable PrefixKey whole() {
        return whole;
    }

    String salt() {
        return salt;
    }

    /// The first token that the name of page k adds to that of the page before; once a name was computed.
    int from(int k) {
        return k == 0 ? 0 : k * PrefixIndex.TOKENS + ahead;
    }

    /// One more than the last token that the name of page k covers; once a name was computed.
    int to(int k) {
        return (k + 1) * PrefixIndex.TOKENS + ahead;
    }

    /// The tokens behind the first `length` have changed: forgets the names that depend on them.
    public void keep(int length) {
        pages = Math.min(pages, Math.max(0, length - ahead) / PrefixIndex.TOKENS);
        tagged = Math.min(tagged, pages);
    }

    /// Computes the names up to that of the page.
    void reach(ChainHash hash, int page, int[] tokens) {
        if (chain.length == 0) {
            chain = hash.root(salt, whole != null);
            ahead = whole == null ? hash.ahead() : 0;
        }
        if (ChainHash.WORDS * (page + 2) > chain.length) {
            chain = Arrays.copyOf(chain, Math.max(ChainHash.WORDS * (page + 2), 2 * chain.length));
        }
        while (pages <= page) {
            hash.next(chain, pages, tokens, from(pages), to(pages));
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

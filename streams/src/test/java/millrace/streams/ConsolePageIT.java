package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import millrace.engine.Engine;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The console's page in a real browser. Skipped where there is none.
///
/// With `-Dmillrace.docs.write=true` the pictures of docs/console are taken anew; with `-Dmillrace.axe=FILE` of axe-core's
/// axe.min.js the page is checked with it.
@Timeout(value = 4, unit = TimeUnit.MINUTES)
class ConsolePageIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String VERIFY = "document.querySelector('#leaves tbody tr:not(.proof) button:not(:disabled)')";

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;
    private static InferenceService service;
    private static ClusterClient client;
    private static Chromium browser;
    private static String url;

    @BeforeAll
    static void start() throws Exception {
        Optional<Path> executable = Chromium.find();
        assumeTrue(executable.isPresent(), "no chromium on the PATH (or -Dmillrace.chromium=FILE): the console's page is not tested");
        cluster = EmbeddedCluster.ephemeral();
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of(
                "application.id", "page", "state.dir", directory.resolve("state").toString(), "topics.partitions", "4",
                "health.port", "0", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "integrity.canary.interval", "1s"));
        ServiceConfig config = ServiceConfig.of(settings);
        service = InferenceService.start(
                config, c -> Engine.open(c.engine(Models.directory(c.string("engine.model"), directory.resolve("models")))), true, line -> {});
        client = new ClusterClient(config);
        browser = new Chromium(executable.get(), directory.resolve("profile"));
        url = "http://127.0.0.1:" + service.healthPort() + "/";
    }

    @AfterAll
    static void stop() throws Exception {
        if (browser != null) {
            browser.close();
            client.close();
            service.close();
            cluster.close();
        }
    }

    private static void send(String id, String question) {
        client.send(Prompt.newBuilder().setRequestId(id)
                .setMessages(List.of(Message.newBuilder().setRole("user").setContent(question).setToolCalls(List.of()).build())).build());
    }

    private static void ask(String id, String question) {
        send(id, question);
        client.await(id, PATIENCE);
    }

    private static void openPage(int width, int height) throws Exception {
        browser.size(width, height, width < 600);
        browser.open(url);
        browser.until("document.documentElement?.dataset.ready === 'true'", JsonNode::asBoolean);
    }

    private static void verifyNewest() throws Exception {
        browser.eval(VERIFY + ".click()");
        browser.until("document.querySelector('tr.proof') !== null", JsonNode::asBoolean);
    }

    @Test
    void loadsFastShowsNewLeavesAndVerifiesThem() throws Exception {
        browser.media("light", false);
        ask("load-1", "What is 81 plus 19?");
        openPage(1280, 900);
        double loaded = browser.eval("performance.getEntriesByName('console-ready')[0].startTime").asDouble();
        String probe = "document.querySelector('td.request[title=\"appears-1\"]') !== null";
        ask("appears-1", "What is the two-letter code for France?");
        long answered = System.nanoTime();
        assertThat(browser.until(probe, JsonNode::asBoolean).asBoolean()).as("the new leaf is shown").isTrue();
        double appeared = (System.nanoTime() - answered) / 1e6;
        System.getLogger(ConsolePageIT.class.getName()).log(System.Logger.Level.INFO,
                "page ready after %.0f ms; a committed answer's leaf shown after %.0f ms".formatted(loaded, appeared));
        verifyNewest();
        JsonNode steps = browser.eval("Array.from(document.querySelectorAll('tr.proof .steps li'), (li) => li.dataset.state)");
        assertThat(steps).as(browser.eval("document.querySelector('tr.proof').textContent").asText()).hasSize(5)
                .allSatisfy(state -> assertThat(state.asText()).isEqualTo("good"));
        assertThat(browser.eval("document.querySelector('tr.proof').textContent").asText())
                .contains("signed with").contains("log_origin").doesNotContain("France");
        assertThat(browser.complaints).isEmpty();
        assertThat(browser.requests).allSatisfy(request -> assertThat(request).matches("(about:blank|" + url + ".*)"));
    }

    /// A service that lies about a leaf is found out by the page.
    @Test
    void findsOutWhatIsNotAsItWasSigned() throws Exception {
        ask("lie-1", "What is 81 plus 19?");
        String lies = """
                (async () => {
                  const { verify } = await import('./console/verify.js');
                  const tail = await (await fetch('api/tail?after=0')).json();
                  const row = tail.rows.filter((each) => each.provable).at(-2);
                  const get = async () => (await fetch(`api/proof?origin=${encodeURIComponent(row.origin)}&seq=${row.seq}`)).json();
                  let proof = await get();
                  for (let i = 0; i < 20 && !proof.path; i++) { await new Promise((r) => setTimeout(r, 200)); proof = await get(); }
                  const schema = await (await fetch(`api/schema?fingerprint=${proof.fingerprint}`)).text();
                  const word = async (r, p, s, k) => { try { return (await verify(r, p, s, k, false)).verified ? 'verified'
                      : (await verify(r, p, s, k, false)).steps.at(-1).state; } catch (e) { return 'refused'; } };
                  const other = 'millrace.test+2c9b7c1f+AQcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH';
                  const flip = (text, at) => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
                  const cut = { ...proof, path: proof.path.slice(0, -1) };
                  const longer = { ...proof, path: [...proof.path, row.leaf] };
                  const swapped = { ...proof, path: proof.path.toReversed() };
                  return {
                    honest: await word(row, proof, schema, proof.vkey),
                    row: await word({ ...row, verdict: 'REFUSED' }, proof, schema, proof.vkey),
                    tokens: await word({ ...row, completionTokens: row.completionTokens + 1 }, proof, schema, proof.vkey),
                    body: await word(row, { ...proof, body: flip(proof.body, 100) }, schema, proof.vkey),
                    schema: await word(row, proof, schema.replace('request_id', 'request_ix'), proof.vkey),
                    cut: await word(row, cut, schema, proof.vkey),
                    longer: await word(row, longer, schema, proof.vkey),
                    swapped: proof.path.length < 2 ? 'bad' : await word(row, swapped, schema, proof.vkey),
                    seq: await word({ ...row, seq: row.seq + 1 }, proof, schema, proof.vkey),
                    note: await word(row, { ...proof, note: proof.note.replace(/\\n(\\d+)\\n/, (m, n) => `\\n${Number(n) + 1}\\n`) }, schema, proof.vkey),
                    signature: await word(row, { ...proof, note: flip(proof.note, proof.note.length - 20) }, schema, proof.vkey),
                    key: await word(row, proof, schema, other),
                  };
                })()""";
        openPage(1280, 900);
        JsonNode found = browser.eval(lies);
        assertThat(found.get("honest").asText()).isEqualTo("verified");
        found.properties().forEach(lie -> {
            if (!lie.getKey().equals("honest")) {
                assertThat(lie.getValue().asText()).as(lie.getKey()).isIn("bad", "refused");
            }
        });
    }

    @Test
    void isUsableByKeyboardAndScreenReader() throws Exception {
        ask("keys-1", "What is 81 plus 19?");
        openPage(1280, 900);
        browser.until("document.querySelector('#leaves button:not(:disabled)') !== null", JsonNode::asBoolean);
        // Landmarks, a heading of each section, a name of everything that can be operated, a language.
        JsonNode facts = browser.eval("""
                ({ language: document.documentElement.lang, mains: document.querySelectorAll('main').length,
                   headings: Array.from(document.querySelectorAll('h1, h2'), (h) => h.localName).join(' '),
                   sections: Array.from(document.querySelectorAll('section'), (s) => document.getElementById(s.getAttribute('aria-labelledby'))?.textContent ?? '').join('|'),
                   unnamed: Array.from(document.querySelectorAll('button, a, input, summary'), (e) => (e.getAttribute('aria-label') ?? e.textContent) || e.labels?.[0]?.textContent || '').filter((n) => n.trim() === '').length,
                   charts: Array.from(document.querySelectorAll('svg'), (s) => s.getAttribute('role') === 'img' && s.getAttribute('aria-label')?.length > 20).every(Boolean),
                   heads: Array.from(document.querySelectorAll('th'), (h) => h.scope).every((s) => s === 'col'),
                   inline: document.querySelectorAll('[style], [onclick], script:not([src])').length })""");
        assertThat(facts.get("language").asText()).isEqualTo("en");
        assertThat(facts.get("mains").asInt()).isEqualTo(1);
        assertThat(facts.get("headings").asText()).isEqualTo("h1 h2 h2 h2 h2 h2");
        assertThat(facts.get("sections").asText()).isEqualTo("Now|Integrity|Queue by partition|Audit log|What serves");
        assertThat(facts.get("unnamed").asInt()).isZero();
        assertThat(facts.get("charts").asBoolean()).isTrue();
        assertThat(facts.get("heads").asBoolean()).isTrue();
        assertThat(facts.get("inline").asInt()).isZero();
        browser.key("Tab", "Tab", 9);
        assertThat(browser.eval("document.activeElement.className").asText()).isEqualTo("skip");
        browser.eval(VERIFY + ".focus()");
        browser.key("Enter", "Enter", 13);
        assertThat(browser.until("document.activeElement.getAttribute('aria-expanded')", v -> v.asText().equals("true")).asText())
                .isEqualTo("true");
        assertThat(browser.until("document.getElementById('said').textContent", v -> !v.asText().isEmpty()).asText()).contains("Verified");
        for (String scheme : List.of("light", "dark")) {
            browser.media(scheme, true);
            assertThat(browser.eval(CONTRAST)).as(scheme + ": text with less contrast than 4.5 to 1").isEmpty();
        }
        assertThat(browser.eval("getComputedStyle(document.querySelector('#leaves tbody tr td')).animationName").asText()).isEqualTo("none");
        Optional<Path> axe = Optional.ofNullable(System.getProperty("millrace.axe")).map(Path::of);
        if (axe.isPresent()) {
            browser.call("Runtime.evaluate", Map.of("expression", Files.readString(axe.get())));
            assertThat(browser.eval("axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')))")).isEmpty();
        }
    }

    /// Text whose colour is too near to that of its ground, by WCAG's formula.
    private static final String CONTRAST = """
            (() => {
              const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
              const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
              const light = ([r, g, b]) => { const l = [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
              const ground = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
              return Array.from(document.body.querySelectorAll('*'))
                .filter((e) => Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim()) && e.checkVisibility() && !e.disabled && e.localName !== 'noscript')
                .map((e) => { const a = light(rgba(getComputedStyle(e).color)), b = light(ground(e)); return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.localName + '.' + e.className + ' ' + e.textContent.slice(0, 30)]; })
                .filter(([ratio]) => ratio < 4.5).map(([ratio, what]) => ratio.toFixed(2) + ' ' + what);
            })()""";

    @Test
    void worksBehindAPrefixNarrowAndDark() throws Exception {
        openPage(390, 844);
        assertThat(browser.eval("document.documentElement.scrollWidth").asInt()).as("width of what can be scrolled to").isEqualTo(390);
        assertThat(browser.eval("Array.from(document.querySelectorAll('[href], [src]'), (e) => e.getAttribute('href') ?? e.getAttribute('src')).filter((a) => a.startsWith('/') || a.includes(':')).length").asInt())
                .as("addresses that are not relative").isZero();
        browser.eval("document.getElementById('theme').click()");
        browser.eval("document.getElementById('theme').click()");
        assertThat(browser.eval("getComputedStyle(document.body).backgroundColor").asText()).isEqualTo("rgb(18, 20, 22)");
        browser.eval("document.getElementById('theme').click()");
        browser.eval("document.getElementById('pause').click()");
        assertThat(browser.eval("document.querySelector('#status .words').textContent").asText()).startsWith("paused at");
    }

    @Test
    void picturesForTheDocument() throws Exception {
        assumeTrue(Boolean.getBoolean("millrace.docs.write"), "pictures are taken with -Dmillrace.docs.write=true");
        List<String> questions = Models.questions("glm-tiny");
        com.fasterxml.jackson.databind.ObjectMapper json = new com.fasterxml.jackson.databind.ObjectMapper();
        java.util.SplittableRandom random = new java.util.SplittableRandom(7);
        for (int round = 0; round < 60; round++) {
            int size = 1 + random.nextInt(1 + 7 * (round % 20) / 10);
            for (int i = 0; i < size; i++) {
                send("order-" + (1000 + 10 * round + i), json.readTree(questions.get((round * 3 + i) % questions.size())).get("prompt").asText());
            }
            Thread.sleep(700);
        }
        Path folder = Repository.root().resolve("docs/console");
        Files.createDirectories(folder);
        ask("order-2000", "What is the two-letter code for France?");
        for (String scheme : List.of("light", "dark")) {
            browser.media(scheme, true);
            openPage(1280, 900);
            browser.until("document.querySelectorAll('#leaves tbody tr').length > 20", JsonNode::asBoolean);
            verifyNewest();
            browser.eval("Array.from(document.querySelectorAll('#leaves tbody tr')).slice(12).forEach((row) => row.remove())");
            browser.eval("document.getElementById('pause').click()");
            Files.write(folder.resolve(scheme + ".png"), browser.screenshot(true));
        }
        browser.media("light", true);
        openPage(390, 844);
        browser.until("document.querySelectorAll('#leaves tbody tr').length > 5", JsonNode::asBoolean);
        Files.write(folder.resolve("narrow.png"), browser.screenshot(false));
    }
}

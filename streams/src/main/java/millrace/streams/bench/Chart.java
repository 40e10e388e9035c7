package millrace.streams.bench;

import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/// A chart of a few series over a few categories, as SVG that reads well on light and on dark pages.
///
/// @param bars bars with whiskers from the least to the greatest, else lines through the medians
/// @param categories along the x axis, evenly spaced
/// @param reference a horizontal line, or null
public record Chart(
        String title,
        String xAxis,
        String yAxis,
        boolean bars,
        List<String> categories,
        List<Series> series,
        @Nullable Reference reference) {
    private static final int WIDTH = 760;
    private static final int HEIGHT = 420;
    private static final int LEFT = 76;
    private static final int RIGHT = 24;
    private static final int TOP = 92;
    private static final int BOTTOM = 62;
    /// Told apart also by those who see few colours, and on white as on black.
    private static final String[] COLOURS = {"#2f7fd1", "#e08214", "#1a9e77", "#c65d9e", "#8f6fd0", "#b3a125"};

    /// A value for each category; null where there is none.
    public record Series(String name, List<@Nullable Samples> values) {}

    /// A level to compare with.
    public record Reference(String name, double value) {}

    /// Whether there is anything to draw.
    public boolean isEmpty() {
        return series.stream().allMatch(one -> one.values().stream().allMatch(v -> v == null || v.isEmpty()));
    }

    public String svg() {
        double step = step(greatest());
        double top = Math.ceil(greatest() / step) * step;
        StringBuilder out = new StringBuilder();
        out.append("""
                <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %1$d %2$d" width="%1$d" height="%2$d" role="img">
                <title>%3$s</title>
                <style>
                  text { font: 13px system-ui, sans-serif; fill: #24292f }
                  .title { font-size: 16px; font-weight: 600 }
                  .back { fill: #ffffff }
                  .grid { stroke: #d0d7de }
                  .axis, .whisker { stroke: #57606a }
                  .reference { stroke: #d1242f; stroke-dasharray: 6 4 }
                  @media (prefers-color-scheme: dark) {
                    text { fill: #e6edf3 }
                    .back { fill: #0d1117 }
                    .grid { stroke: #30363d }
                    .axis, .whisker { stroke: #9198a1 }
                    .reference { stroke: #ff7b72 }
                  }
                </style>
                <rect class="back" width="%1$d" height="%2$d" rx="6"/>
                """.formatted(WIDTH, HEIGHT, escape(title)));
        text(out, LEFT, 28, "class=\"title\"", title);
        grid(out, step, top);
        legend(out);
        for (int s = 0; s < series.size(); s++) {
            if (bars) {
                bars(out, s, top);
            } else {
                line(out, s, top);
            }
        }
        if (reference != null) {
            double y = y(reference.value(), top);
            out.append("<line class=\"reference\" x1=\"%d\" x2=\"%d\" y1=\"%s\" y2=\"%s\"/>\n"
                    .formatted(LEFT, WIDTH - RIGHT, number(y), number(y)));
        }
        return out.append("</svg>\n").toString();
    }

    private double greatest() {
        double greatest = reference == null ? 0 : reference.value();
        for (Series one : series) {
            for (Samples value : one.values()) {
                if (value != null && !value.isEmpty()) {
                    greatest = Math.max(greatest, bars ? value.max() : value.median());
                }
            }
        }
        return greatest > 0 ? greatest : 1;
    }

    /// 1, 2 or 5 times a power of ten, so that about five lines cross the chart.
    static double step(double greatest) {
        double power = Math.pow(10, Math.floor(Math.log10(greatest / 5)));
        double lead = greatest / 5 / power;
        return power * (lead > 5 ? 10 : lead > 2 ? 5 : lead > 1 ? 2 : 1);
    }

    private void grid(StringBuilder out, double step, double top) {
        for (int i = 0; i * step <= top * 1.0001; i++) {
            double y = y(i * step, top);
            out.append("<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%s\" y2=\"%s\"/>\n"
                    .formatted(i == 0 ? "axis" : "grid", LEFT, WIDTH - RIGHT, number(y), number(y)));
            text(out, LEFT - 8, y + 4, "text-anchor=\"end\"", tick(i * step, step));
        }
        for (int c = 0; c < categories.size(); c++) {
            text(out, x(c), HEIGHT - BOTTOM + 20, "text-anchor=\"middle\"", categories.get(c));
        }
        text(out, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 14, "text-anchor=\"middle\"", xAxis);
        int middle = TOP + (HEIGHT - TOP - BOTTOM) / 2;
        text(out, 20, middle, "text-anchor=\"middle\" transform=\"rotate(-90 20 " + middle + ")\"", yAxis);
    }

    private void legend(StringBuilder out) {
        double x = LEFT;
        double y = 54;
        int entries = series.size() + (reference == null ? 0 : 1);
        for (int s = 0; s < entries; s++) {
            boolean last = s == series.size();
            String name = last && reference != null ? reference.name() : series.get(s).name();
            double width = 34 + 7.2 * name.length();
            if (x + width > WIDTH - RIGHT && x > LEFT) {
                x = LEFT;
                y += 20;
            }
            out.append(last
                    ? "<line class=\"reference\" x1=\"%s\" x2=\"%s\" y1=\"%s\" y2=\"%s\"/>\n"
                            .formatted(number(x), number(x + 14), number(y - 4), number(y - 4))
                    : "<rect x=\"%s\" y=\"%s\" width=\"14\" height=\"10\" fill=\"%s\"/>\n"
                            .formatted(number(x), number(y - 9), colour(s)));
            text(out, x + 20, y, "", name);
            x += width;
        }
    }

    private void bars(StringBuilder out, int s, double top) {
        double slot = slot();
        double width = Math.min(46, slot * 0.8 / series.size());
        for (int c = 0; c < categories.size(); c++) {
            Samples value = series.get(s).values().get(c);
            if (value == null || value.isEmpty()) {
                continue;
            }
            double x = x(c) + (s - series.size() / 2.0) * width;
            double y = y(value.median(), top);
            out.append("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"><title>%s, %s: %s</title></rect>\n"
                    .formatted(number(x + 1), number(y), number(width - 2), number(HEIGHT - BOTTOM - y), colour(s),
                            escape(series.get(s).name()), escape(categories.get(c)), number(value.median())));
            if (value.count() > 1) {
                out.append("<line class=\"whisker\" x1=\"%1$s\" x2=\"%1$s\" y1=\"%2$s\" y2=\"%3$s\"/>\n"
                        .formatted(number(x + width / 2), number(y(value.min(), top)), number(y(value.max(), top))));
            }
        }
    }

    private void line(StringBuilder out, int s, double top) {
        StringBuilder points = new StringBuilder();
        StringBuilder dots = new StringBuilder();
        for (int c = 0; c < categories.size(); c++) {
            Samples value = series.get(s).values().get(c);
            if (value == null || value.isEmpty()) {
                continue;
            }
            String x = number(x(c));
            String y = number(y(value.median(), top));
            points.append(points.isEmpty() ? "" : " ").append(x).append(',').append(y);
            dots.append("<circle cx=\"%s\" cy=\"%s\" r=\"4\" fill=\"%s\"><title>%s, %s: %s</title></circle>\n"
                    .formatted(x, y, colour(s), escape(series.get(s).name()), escape(categories.get(c)), number(value.median())));
        }
        out.append("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" points=\"%s\"/>\n".formatted(colour(s), points))
                .append(dots);
    }

    private double slot() {
        return (double) (WIDTH - LEFT - RIGHT) / categories.size();
    }

    private double x(int category) {
        return LEFT + (category + 0.5) * slot();
    }

    private static double y(double value, double top) {
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    }

    private static String colour(int s) {
        return COLOURS[s % COLOURS.length];
    }

    private static void text(StringBuilder out, double x, double y, String attributes, String content) {
        out.append("<text x=\"%s\" y=\"%s\" %s>%s</text>\n".formatted(number(x), number(y), attributes, escape(content)));
    }

    private static String tick(double value, double step) {
        return String.format(Locale.ROOT, step >= 1 ? "%.0f" : step >= 0.1 ? "%.1f" : "%.2f", value);
    }

    private static String number(double value) {
        String text = String.format(Locale.ROOT, "%.2f", value);
        return text.contains(".") ? text.replaceAll("0+$", "").replaceAll("\\.$", "") : text;
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\"", "&quot;");
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.streams.client.DeltaListener;

/// Writes previews as they come, and knows at the end whether they were the completion.
final class StreamedText implements DeltaListener {
    private final PrintWriter to;
    private final StringBuilder content = new StringBuilder();
    private DeltaKind last = DeltaKind.CONTENT;
    private boolean holes;
    private boolean anything;

    StreamedText(PrintWriter to) {
        this.to = to;
    }

    @Override
    public synchronized void onDelta(Delta delta) {
        if (delta.getKind() == DeltaKind.END || delta.getKind() == DeltaKind.UNKNOWN) {
            return;
        }
        if (anything && delta.getKind() != last) {
            to.println();
        }
        anything = true;
        last = delta.getKind();
        if (delta.getKind() == DeltaKind.TOOL_CALL) {
            to.print(delta.getToolCall().getName() + "(" + delta.getToolCall().getArguments() + ")");
        } else {
            to.print(delta.getText());
            if (delta.getKind() == DeltaKind.CONTENT) {
                content.append(delta.getText());
            }
        }
        to.flush();
    }

    @Override
    public synchronized void onRestart() {
        content.setLength(0);
        holes = false;
        anything = false;
        to.println();
        to.println("[it begins again; what stands above is void]");
        to.flush();
    }

    @Override
    public synchronized void onGap(long count) {
        holes = true;
        to.print("[...]");
        to.flush();
    }

    /// Ends the line, and says whether everything that the completion says to the user has been shown.
    synchronized boolean showed(Completion completion) {
        if (anything) {
            to.println();
            to.flush();
        }
        String said = completion.getReply() == null ? completion.getText() : completion.getReply().getContent();
        return !holes && content.toString().contentEquals(said);
    }
}

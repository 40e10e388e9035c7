package millrace.engine.kernel.cuda;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectPackage;

import java.io.PrintWriter;
import java.util.List;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/// Runs the tests that hold on every device, on the one that [StandIn#DRIVER] names: what `millrace gpu check` does on a
/// machine that has one. Exit status 0 if all passed and there were some, else 1.
public final class DeviceContract {
    /// Tests that need nothing of the stand-in beside a driver.
    static final String TAG = "device";

    private DeviceContract() {}

    /// Takes no arguments.
    public static void main(String[] arguments) {
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(List.of(selectPackage("millrace.engine")))
                .filters(TagFilter.includeTags(TAG))
                .build();
        var summary = new SummaryGeneratingListener();
        LauncherFactory.create().execute(request, summary, new Lines());
        TestExecutionSummary result = summary.getSummary();
        PrintWriter out = new PrintWriter(System.out, true);
        result.printFailuresTo(out, 20);
        out.printf("contract: %d passed, %d failed, %d skipped%n",
                result.getTestsSucceededCount(), result.getTestsFailedCount(), result.getTestsAbortedCount());
        System.exit(result.getTotalFailureCount() == 0 && result.getTestsSucceededCount() > 0 ? 0 : 1);
    }

    /// One line for each test.
    private static final class Lines implements TestExecutionListener {
        private long start;

        @Override
        public void executionStarted(TestIdentifier test) {
            start = System.nanoTime();
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (test.isTest()) {
                System.out.printf("%-10s %6.2f s  %s%n",
                        result.getStatus(), (System.nanoTime() - start) / 1e9, test.getDisplayName());
            } else if (result.getStatus() == TestExecutionResult.Status.FAILED) {
                System.out.printf("%-10s %s: %s%n", result.getStatus(), test.getDisplayName(), result.getThrowable());
            }
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/// Which test refuses what: every kind of bad input that the service was built against, with the codes that it answers
/// with and the tests that pin them. Read from the tests' sources, so that the list cannot claim what is not there.
class BadInputCorpusTest {
    /// One kind of bad input.
    ///
    /// @param codes that the named tests' sources contain, all of them
    /// @param tests `Class#method`
    private record Item(int number, String input, List<String> codes, List<String> tests) {}

    private static Item item(int number, String input, String codes, String... tests) {
        return new Item(number, input, codes.isEmpty() ? List.of() : List.of(codes.split(" ")), List.of(tests));
    }

    private static final List<Item> WEIGHTS = List.of(
            item(1, "safetensors of 0 and 7 bytes", "ST_TOO_SHORT", "SafetensorsFileTest#fileWithoutHeaderLengthShouldBeRefused"),
            item(2, "header length of 2^63-1 and 2^64-1", "ST_HEADER_LEN", "SafetensorsFileTest#headerLengthBeyondTheFileShouldBeRefused"),
            item(3, "header length of one more than the file", "ST_HEADER_LEN", "SafetensorsFileTest#headerLengthBeyondTheFileShouldBeRefused"),
            item(4, "header of 100,000,001 bytes", "ST_HEADER_TOO_LARGE",
                    "SafetensorsFileTest#headerAboveTheFormatsBoundShouldBeRefusedWithoutReadingIt"),
            item(5, "header that begins with [ or a byte order mark", "ST_HEADER_JSON",
                    "SafetensorsFileTest#headerThatDoesNotBeginWithABraceShouldBeRefused"),
            item(6, "a tensor's name twice", "ST_DUPLICATE", "SafetensorsFileTest#duplicateNamesShouldBeRefused"),
            item(7, "shape [2^32, 2^32]", "ST_OVERFLOW", "SafetensorsFileTest#shapeThatOverflowsShouldBeRefused"),
            item(8, "shape with -1, 1.5, \"4\"", "ST_SHAPE", "SafetensorsFileTest#shapeThatIsNotOfWholeNumbersShouldBeRefused"),
            item(9, "offsets backwards, overlap, hole, past the end, trailing bytes", "ST_LAYOUT",
                    "SafetensorsFileTest#offsetsThatDoNotFitShouldBeRefused", "SafetensorsFileTest#tensorsThatDoNotTileTheDataShouldBeRefused"),
            item(10, "dtype unknown, of another length, 4-bit with an odd count", "ST_DTYPE",
                    "SafetensorsFileTest#dtypeThatDoesNotFitShouldBeRefused"),
            item(11, "metadata with an object in it", "ST_METADATA", "SafetensorsFileTest#metadataOtherThanStringsShouldBeRefused"),
            item(12, "a million tensors of no size", "ST_TOO_MANY", "SafetensorsFileTest#tooManyTensorsShouldBeRefused"),
            item(13, "tensor's name that is a path, of 1 MB, with NUL", "ST_NAME",
                    "SafetensorsFileTest#nameThatIsMoreThanANameShouldBeRefused", "SafetensorsFileTest#nameThatIsTooLongShouldBeRefused"),
            item(14, "index that names a path, a link out of the directory", "IDX_PATH",
                    "ModelFilesTest#fileNameThatIsAPathShouldBeRefused", "ModelFilesTest#linkThatLeavesTheDirectoryShouldBeRefused"),
            item(15, "index with a tensor twice, without a shard", "IDX_INCOMPLETE",
                    "ModelFilesTest#incompleteOrContradictoryIndexShouldBeRefused"),
            item(16, "scales that are no numbers; a scale of zero is one", "W_SCALE",
                    "LinearTensorsTest#int4ThatIsNotUnderstoodShouldBeRefused", "LinearTensorsTest#nanScaleOfPowersShouldBeRefused",
                    "LinearTensorsTest#scaleOfZeroShouldGiveZeros", "BlobTest#scalesAndCodesThatAreNoNumbersShouldBeRefused"),
            item(17, "one bit flipped in the weights", "MODEL_FILE_MISMATCH", "ModelFuzzTest#findsEveryFlippedBit",
                    "SignedModelTest#saysWhatEveryFileIs", "ModelManifestTest#findsFlippedBitsOfWeights"),
            item(18, "bundle of another payload type, with two signatures, empty, missing",
                    "MODEL_BUNDLE_PARSE MODEL_BUNDLE_UNSUPPORTED MODEL_BUNDLE_MISSING", "ModelBundleTest#refusesWhatIsNoBundle",
                    "ModelBundleTest#refusesWhatIsMadeInAnotherWay", "ModelBundleTest#saysThatThereIsNone"),
            item(19, "signature by another key, cut, with r = 0", "MODEL_SIG_INVALID MODEL_KEY_UNKNOWN",
                    "SignedModelTest#refusesSignaturesThatAreNone", "SignedModelTest#refusesAnotherKeysSignature"),
            item(20, "signed payload indented anew", "MODEL_SIG_INVALID", "SignedModelTest#refusesSignaturesThatAreNone"),
            item(21, "resources twice in signed JSON", "MODEL_STATEMENT_INVALID", "SignedModelTest#refusesStatementsThatAreNone"),
            item(22, "bundle of version 0.2", "MODEL_BUNDLE_UNSUPPORTED", "ModelBundleTest#refusesVersion02WithAdvice"),
            item(23, "file that nobody signed", "MODEL_FILE_UNSIGNED", "SignedModelTest#saysWhatEveryFileIs",
                    "SignedModelTest#refusesAnIgnoredFileThatIsRead"),
            item(24, "file swapped between its digest and its use", "MODEL_FILE_CHANGED",
                    "ModelFilesTest#fileThatChangesAfterHashingShouldBeRefused", "ModelManifestTest#findsAFileThatChangesBetweenItsDigestAndItsUse"),
            item(25, "packed block of 1 TB, of another size, cut, under another checksum", "BLOCK_FORMAT BLOCK_CRC",
                    "BlobTest#sectionsOfOtherLengthsShouldBeRefused", "BlobTest#cutTensorShouldBeRefused",
                    "BlobTest#damagedBytesShouldBeRefusedByPlace", "BlobTest#forgedBytesShouldGiveWeightsOrARefusalAndNothingElse"),
            item(26, "GGUF, pickle", "MODEL_FORMAT", "SafetensorsFileTest#otherFormatsShouldBeRefusedByName",
                    "ModelFilesTest#directoryOfAnotherFormatShouldBeRefusedByName", "ModelFilesTest#pickleInTheIndexShouldBeRefused"),
            item(27, "block table of another model", "BT_FOREIGN", "BlockTableTest#refusesTheTableOfOtherWeights",
                    "WeightGuardTest#theTableOfOtherWeightsIsNotBelieved"));

    private static final List<Item> TOKENIZERS = List.of(
            item(28, "tokenizer.json too large, too deep", "TOK_LIMIT", "TokenizerRefusalTest#refusesWhatIsTooLargeOrTooDeep"),
            item(29, "merges of missing tokens, ids twice, id of 2^31", "TOK_INVALID", "TokenizerRefusalTest#refusesABrokenVocabulary",
                    "TokenizerRefusalTest#refusesBrokenMerges"),
            item(30, "split pattern that takes for ever", "TOK_REGEX PROMPT_TOO_COMPLEX",
                    "SplitterTest#refusesAPatternThatItCannotVouchFor", "SplitterTest#boundsTheTimeOfAnUnknownPattern"),
            item(31, "chat template that is a program: none is run", "TPL_UNKNOWN",
                    "ChatFormatTest#servesTextsButNoConversationsWithoutAKnownTemplate"),
            item(32, "a megabyte of one letter", "", "BpeTokenizerTest#staysFastOnAMegabyteOfAnything"));

    private static final List<Item> PROMPTS = List.of(
            item(33, "value null, empty, short, of another magic byte or schema",
                    "SCHEMA_NULL SCHEMA_TOO_SHORT SCHEMA_MAGIC SCHEMA_UNKNOWN_ID SCHEMA_FOREIGN",
                    "InferenceTopologyTest#sendsEveryKindOfUnreadableRecordToTheDeadLetterTopic",
                    "InferenceTopologyTest#putsUndecodableBytesAsTheyCameIntoTheDeadLetterTopic", "AvroDecoderTest#refusesTheSchemaOfAnotherRecord"),
            item(34, "Avro body cut, with lengths and indices that cannot be", "AVRO_DECODE", "AvroDecoderTest#believesNoLength",
                    "AvroDecoderTest#refusesEveryCutAndEveryExtension"),
            item(35, "prompt empty, blank, too large", "PROMPT_EMPTY PROMPT_TOO_LARGE", "RequestCheckTest#refusesPromptsWithoutText",
                    "RequestCheckTest#refusesPromptsThatAreTooLarge", "IntakeTest#refusesRecordsThatAreTooLarge"),
            item(36, "max_tokens out of range, beyond the context", "PARAM_RANGE CONTEXT_OVERFLOW",
                    "RequestCheckTest#refusesNumbersOfTokensOutOfRange", "IntakeTest#refusesCountsOfTokensOutOfRange",
                    "EngineTest#refusesWhatCanNeverFit"),
            item(37, "sampling out of range, no number; -0.0 is 0", "PARAM_RANGE", "RequestCheckTest#refusesSamplingOutOfRange",
                    "RequestCheckTest#acceptsTheEdgesOfEveryRange", "SamplerTest#negativeZeroTemperatureIsGreedy",
                    "IntakeTest#fillsInWhatThePromptLeavesOpen"),
            item(38, "100,000 stop strings, an empty one", "PARAM_LIMIT", "RequestCheckTest#refusesStopStringsOutOfLimits"),
            item(39, "lone surrogate; NUL, overrides and marks are text", "PROMPT_NOT_UTF8", "RequestCheckTest#refusesLoneSurrogates",
                    "RequestCheckTest#acceptsTheEdgesOfEveryRange", "BpeTokenizerTest#decodesWhatItEncoded",
                    "BpeTokenizerTest#normalizesAlternatingMarksInBoundedTime"),
            item(40, "special tokens in a user's text", "", "EngineTest#aTextFormsNoSpecialToken",
                    "BpeTokenizerTest#formsNoAddedTokenFromPlainText", "ChatFormatTest#leavesTheRolesAsTheyAreWhateverTheTextsSay"),
            item(41, "the same id again, with the same and another body", "DUPLICATE_ID_CONFLICT",
                    "InferenceTopologyTest#answersTheSameIdWithTheSameBodyOnce", "InferenceTopologyTest#rejectsTheSameIdWithAnotherBody"),
            item(42, "id that forges a log line", "ID_FORMAT", "IntakeTest#refusesIdsThatCouldForgeALogLine"),
            item(43, "tenant forged, missing", "TENANT_FORMAT TENANT_MISSING TENANT_CONFLICT",
                    "IntakeTest#refusesTenantsThatAreForgedOrMissing"),
            item(44, "deadline past, far away", "DEADLINE", "IntakeTest#refusesDeadlinesThatArePastOrAMistake"),
            item(45, "a prefix that two tenants share", "", "EngineTest#tenantsShareNothingHoweverMuchOfTheirPromptsIsEqual",
                    "PrefixCacheTest#saltsNeverShare", "IntakeTest#saltsTheCacheByTenantWhateverThePromptSays"));

    private static final List<Item> LOGS = List.of(
            item(46, "leaf of another place, repeated, skipped, on another leaf, of an older epoch",
                    "LOG_PARTITION LOG_TOPIC LOG_SEQ_REPEATED LOG_SEQ_SKIPPED LOG_PREV_LEAF LOG_EPOCH_DECREASED",
                    "LogVerifierTest#refusesALeafOfAnotherPartitionTopicOrCluster", "LogVerifierTest#refusesARepeatedLeaf",
                    "LogVerifierTest#refusesASkippedLeaf", "LogVerifierTest#refusesALeafThatWasReplacedByAnother",
                    "LogVerifierTest#refusesAnEpochThatGoesBack"),
            item(47, "checkpoint of another form, by unknown keys, under a wrong signature",
                    "NOTE_SIZE NOTE_EXTENSION NOTE_ORIGIN NOTE_CONTROL NOTE_UNKNOWN_KEY NOTE_SIGNATURE",
                    "SignedNoteTest#refusesOtherFormsOfACheckpoint", "SignedNoteTest#refusesASignatureOverTheEmptyLine",
                    "SignedNoteTest#refusesControlCharacters", "SignedNoteTest#passesOverUnknownKeysAndRefusesANoteWithOnlySuch",
                    "SignedNoteTest#refusesAWrongSignatureOfAKnownKeyEvenBesideARightOne"),
            item(48, "proof beyond the tree, of another length, of an inner node", "PROOF_INVALID", "MerkleTest#proofsSayWhatIsWrong",
                    "MerkleTest#aLeafMadeOfAnInnerNodesBytesIsNotThatNode", "MerkleTest#provesEveryLeafOfEveryTree"),
            item(49, "two roots of one size", "EQUIVOCATION", "LogVerifierTest#refusesTwoCheckpointsOfOneSizeWithDifferentRoots",
                    "ConsistencyTextTest#twoRootsOfOneSizeNeedNoProof"),
            item(50, "activation proof or proof of a leaf of another form", "PROOF_FORMAT", "ActivationProofTest#refusesWhatIsNoProof",
                    "TlogProofTest#refusesOtherForms", "ConsistencyTextTest#refusesOtherForms"),
            item(51, "audit topic that is compacted, on one broker", "AUDIT_TOPIC_UNSAFE", "AuditTopicCheckTest#namesEveryWeakness",
                    "TopicsIT#refusesAnAuditTopicThatIsCompacted", "TopicsIT#refusesAReplicationFactorOfOneUnlessItIsASingleNode"),
            item(52, "registry that redirects, answers HTML, hangs", "REGISTRY_REDIRECT REGISTRY_RESPONSE REGISTRY_TIMEOUT",
                    "SchemaRegistryClientTest#doesNotFollowRedirects", "SchemaRegistryClientTest#doesNotTakeAWebPageForAnAnswer",
                    "SchemaRegistryClientTest#givesUpOnAServerThatHangs"),
            item(53, "login modules, files as addresses, config providers", "CONFIG_REFUSED",
                    "ServiceConfigTest#refusesALoginModuleThatLoadsClassesFromElsewhere",
                    "ServiceConfigTest#refusesFilesWhereAnAddressIsExpected", "ServiceConfigTest#refusesConfigProviders"),
            item(54, "KV page with a flipped bit, of another place, tenant or layout, freed; table damaged", "",
                    "PageDigestTest#everySingleBitCounts", "KvFaultTest#completionsAreThoseOfARunWithoutFaults",
                    "KvFaultTest#tablesThatAreDamagedNeverReachTheModel", "KvFaultTest#pagesThatAreFreedTooEarlyAreNotRead",
                    "KvFaultTest#withoutFaultsNothingIsReported", "PagePoolTest#epochShouldChangeWheneverAPageIsHandedOut",
                    "PrefixIndexTest#pagesInDoubtLeaveWithAllThatFollowThem", "PrefixIndexTest#saltsShareNothing"));

    private static List<Item> corpus() {
        List<Item> all = new ArrayList<>();
        List.of(WEIGHTS, TOKENIZERS, PROMPTS, LOGS).forEach(all::addAll);
        return all;
    }

    @Test
    void everyKindHasItsNumber() {
        assertThat(corpus()).extracting(Item::number)
                .containsExactlyElementsOf(java.util.stream.IntStream.rangeClosed(1, 54).boxed().toList());
    }

    @Test
    void everyRefusalHasATest() throws IOException {
        Map<String, String> sources = sources();
        List<String> missing = new ArrayList<>();
        for (Item item : corpus()) {
            StringBuilder read = new StringBuilder();
            for (String test : item.tests()) {
                String[] parts = test.split("#");
                String source = sources.getOrDefault(parts[0], "");
                read.append(source);
                if (!isTest(source, parts[1])) {
                    missing.add(item.number() + " " + item.input() + ": no test " + test);
                }
            }
            item.codes().stream().filter(code -> !Pattern.compile('"' + code + "[\":]").matcher(read).find())
                    .forEach(code -> missing.add(item.number() + " " + item.input() + ": " + code + " is in none of " + item.tests()));
        }
        assertThat(missing).isEmpty();
    }

    /// Every parser of what comes from outside meets bytes that nobody thought of.
    @Test
    void everyParserMeetsRandomInput() throws IOException {
        Map<String, String> sources = sources();
        List<String> missing = new ArrayList<>();
        PARSERS.forEach((parser, test) -> {
            String[] parts = test.split("#");
            if (!isTest(sources.getOrDefault(parts[0], ""), parts[1])) {
                missing.add(parser + ": no test " + test);
            }
        });
        assertThat(missing).isEmpty();
    }

    private static final Map<String, String> PARSERS = Map.ofEntries(
            Map.entry("safetensors header", "SafetensorsFileTest#mutatedFileShouldNeverEscapeAsAnotherError"),
            Map.entry("weight index", "WeightIndexFuzzTest#readsTheMapOfTheTreeOrRefuses"),
            Map.entry("config.json", "ModelConfigRefusalTest#changedConfigShouldNeverEscapeAsAnotherError"),
            Map.entry("packed tensors", "BlobTest#forgedBytesShouldGiveWeightsOrARefusalAndNothingElse"),
            Map.entry("tensors.json", "TensorManifestTest#survivesDamage"),
            Map.entry("block table", "BlockTableTest#everyFlippedBitOfTheTableIsFoundAndMadeGoodFromTheOtherCopy"),
            Map.entry("tokenizer.json, added tokens", "TokenizerFuzzTest#readsOrRefusesDamagedTokenizerJson"),
            Map.entry("tiktoken.model", "TokenizerFuzzTest#readsOrRefusesDamagedTiktokenModels"),
            Map.entry("tokenizer_config.json", "TokenizerFuzzTest#readsOrRefusesDamagedTokenizerConfigs"),
            Map.entry("conversations and tools", "ChatFuzzTest#everyConversationIsRenderedOrRefused"),
            Map.entry("model bundle", "ModelFuzzTest#neverTakesADamagedBundleForAnother"),
            Map.entry("model statement", "ModelFuzzTest#keepsItsPromisesForAnyStatement"),
            Map.entry("public keys in PEM", "ModelFuzzTest#readsPublicKeysAsTheJdkDoes"),
            Map.entry("private keys in PEM", "ModelFuzzTest#readsPrivateKeysOrRefusesThem"),
            Map.entry("signed notes and checkpoints", "SignedNoteTest#opensNothingThatWasNotSigned"),
            Map.entry("proofs", "ConsistencyTextTest#nothingElseHolds"),
            Map.entry("activation proofs", "ActivationProofTest#readsAnyBytesOrRefusesThem"),
            Map.entry("state of a witness", "WitnessTest#readsNothingElseThanWhatWasWritten"),
            Map.entry("public keys of notes", "NameFuzzTest#readsAPublicKeyOrRefusesIt"),
            Map.entry("private keys of notes", "NameFuzzTest#readsAPrivateKeyOrRefusesIt"),
            Map.entry("names of logs", "NameFuzzTest#readsAnOriginOrRefusesIt"),
            Map.entry("leaves", "LogVerifierTest#noticesEveryFlippedBitOfALeaf"),
            Map.entry("Avro on the wire", "AvroDecoderTest#throwsNothingElseOnDamagedRecords"),
            Map.entry("answers of a registry", "SchemaRegistryClientTest#readsAnyAnswerOrRefusesIt"),
            Map.entry("requests to the registry", "RegistryApiFuzzTest#answersAnythingInJson"),
            Map.entry("pending prompts", "PendingPromptTest#givesBackOrRefusesDamagedBytes"),
            Map.entry("writers of a log", "LogWritersTest#anyBytesAreRefusedOrUnderstoodWhole"),
            Map.entry("request lines", "InputFuzzTest#requestLinesAreReadOrRefused"),
            Map.entry("sizes in bytes", "InputFuzzTest#sizesAreThoseOfArithmetic"),
            Map.entry("spans of time", "SettingsFuzzTest#durationsAreThoseOfArithmetic"),
            Map.entry("cache groups", "SettingsFuzzTest#groupsAreThoseWrittenDown"),
            Map.entry("settings", "SettingsFuzzTest#anyKeysAndValuesAreTakenOrRefusedByTheirKey"),
            Map.entry("settings files", "SettingsFuzzTest#anyFileIsReadOrRefused"),
            Map.entry("policy of trusted keys", "ModelFuzzTest#readsAPolicyOrRefusesIt"),
            Map.entry("cosigned notes", "CosignatureTest#opensNothingThatWasNotSigned"),
            Map.entry("state of a log", "TreeStateTest#refusesEveryFlippedByteAndEveryOtherLength"),
            Map.entry("keys of a log", "LogKeysTest#refusesEveryFlippedBitOfTheState"),
            Map.entry("JSON Schemas", "GuideWalkTest#endsInValidDocumentsWhateverIsChosen"),
            Map.entry("documents, as they are written", "GuideTest#takesEveryDocumentInEverySplit"),
            Map.entry("replies of models", "RepliesPropertyTest#anythingIsReadTheSameWayInAnyPieces"),
            Map.entry("requests to the gateway", "BodiesTest#anyBodyIsTakenOrRefusedByItsPath"),
            Map.entry("forms with files", "MultipartTest#contentThatAlmostIsTheBoundaryIsContent"),
            Map.entry("keys of the gateway", "ApiKeysTest#anyFileIsReadOrRefusedWithoutAWordOfIt"),
            Map.entry("quotas", "QuotaTableTest#anyFileIsReadOrRefusedByItsEntry"),
            Map.entry("trace headers", "TraceContextTest#anyHeadersGiveNoneOrAContextThatComesBack"));

    /// Whether the method stands there and its annotations, back to the end of the member before it, make it a test.
    private static boolean isTest(String source, String method) {
        int at = source.indexOf("    void " + method + "(");
        String before = at < 0 ? "" : source.substring(Math.max(0, source.lastIndexOf("\n    }\n", at)), at);
        return before.contains("    @Test\n") || before.contains("    @ParameterizedTest\n") || before.contains("    @ParameterizedTest(");
    }

    /// The text of every test, by the name of its class.
    private static Map<String, String> sources() throws IOException {
        Map<String, String> sources = new HashMap<>();
        for (Path file : Repository.files()) {
            String name = file.getFileName().toString();
            if (name.endsWith(".java") && file.toString().contains("/src/test/")) {
                sources.put(name.substring(0, name.length() - ".java".length()), Files.readString(file));
            }
        }
        return sources;
    }
}

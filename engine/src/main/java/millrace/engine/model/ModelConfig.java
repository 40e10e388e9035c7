package millrace.engine.model;

import java.util.List;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.checkpoint.Quantization;
import millrace.engine.weights.ModelFiles;
import org.jspecify.annotations.Nullable;

/// config.json and generation_config.json of a checkpoint, normalised and checked; its own names in camelCase.
///
/// @param modelType `model_type` of the text model, for example `kimi_k2`
/// @param architecture `architectures[0]`
/// @param tensorPrefix what tensor names of the body begin with: `model.`, in a wrapper `language_model.model.`
/// @param lmHeadName full name of the output projection; if `tieWordEmbeddings`, the embedding stands in for it
/// @param numKeyValueHeads equal to `numAttentionHeads` in latent attention
/// @param headDim dimensions of a query and key head; in latent attention un-rotated and rotated part together
/// @param intermediateSize inner width of the dense feed-forward layers
/// @param attentionBias whether queries, keys and values have a bias; the output projection never has one
/// @param useQkNorm whether queries and keys are normed per head before rotation
/// @param mla present exactly in families of latent attention
/// @param moe present if some layers are mixtures of experts
/// @param indexer present exactly in families of sparse attention
/// @param draft present where the draft layer is to be computed with, see [#withDraft]
/// @param maxPositionEmbeddings the model's context, tokens
/// @param eosTokenIds stop tokens of config.json and generation_config.json, without duplicates, maybe none
/// @param quantization how the linear layers are stored
public record ModelConfig(
        ModelFamily family,
        String modelType,
        String architecture,
        String tensorPrefix,
        String lmHeadName,
        int vocabSize,
        int hiddenSize,
        int numHiddenLayers,
        int numAttentionHeads,
        int numKeyValueHeads,
        int headDim,
        int intermediateSize,
        float rmsNormEps,
        boolean attentionBias,
        boolean useQkNorm,
        boolean tieWordEmbeddings,
        RopeConfig rope,
        @Nullable MlaConfig mla,
        @Nullable MoeConfig moe,
        @Nullable IndexerConfig indexer,
        @Nullable DraftConfig draft,
        int maxPositionEmbeddings,
        List<Integer> eosTokenIds,
        Quantization quantization) {

    public ModelConfig {
        if (family.latentAttention() != (mla != null)) {
            throw new IllegalArgumentException(family + " and latent attention " + mla);
        }
        if (moe != null && moe.sparseLayers().size() != numHiddenLayers) {
            throw new IllegalArgumentException(
                    moe.sparseLayers().size() + " layer kinds, " + numHiddenLayers + " layers");
        }
        if (family.sparseAttention() != (indexer != null)) {
            throw new IllegalArgumentException(family + " and indexer " + indexer);
        }
        if (indexer != null && (mla == null || mla.qLoraRank() == 0 || indexer.full().size() != numHiddenLayers)) {
            throw new IllegalArgumentException("indexer " + indexer + ", attention " + mla);
        }
        if (draft != null && moe == null) {
            throw new IllegalArgumentException("a draft layer without experts");
        }
        eosTokenIds = List.copyOf(eosTokenIds);
    }

    /// Whether the layer is a mixture of experts. A draft layer, behind the last, always is.
    public boolean isSparse(int layer) {
        return moe != null && (layer == numHiddenLayers || moe.sparseLayers().get(layer));
    }

    /// Layers that are computed with and keep something of every token, the draft layer included.
    public int cachedLayers() {
        return draft == null ? numHiddenLayers : numHiddenLayers + 1;
    }

    /// Whether the layer has an indexer of its own. A draft layer, behind the last, does where others do.
    public boolean indexes(int layer) {
        return indexer != null && (layer == numHiddenLayers || indexer.full().get(layer));
    }

    /// How many of the layers before this one have an indexer of their own.
    public int indexedBefore(int layer) {
        return indexer == null ? 0 : indexer.fullBefore(layer);
    }

    /// Layers that keep index keys, the draft layer included.
    public int indexedLayers() {
        return indexer == null ? 0 : indexer.fullLayers() + (draft == null ? 0 : 1);
    }

    /// The same with the draft layer, if config.json tells of one and the files have it: tensors of a layer behind the last.
    /// Of several draft layers this is the first; the others are not computed with.
    ///
    /// A layer of which some tensors are missing is found by [TensorExpectation#check].
    ///
    /// @throws millrace.engine.InvalidModelException as [#read]
    public ModelConfig withDraft(ModelFiles files) {
        String p = draftPrefix();
        if (moe == null
                || draftLayers(files) == 0
                || files.tensorNames().stream().noneMatch(name -> name.startsWith(p))) {
            return this;
        }
        var tensors = new LinearTensors(files, quantization);
        return withDraft(new DraftConfig(
                !tensors.names(p + DraftConfig.EMBEDDING).isEmpty(),
                !tensors.names(p + DraftConfig.HEAD).isEmpty(),
                family.draftsFromNormed()));
    }

    /// How many draft layers config.json tells of, whether the files have them or not.
    public int draftLayers(ModelFiles files) {
        return ConfigReader.draftLayers(files.read(ModelFiles.CONFIG));
    }

    /// The same with that draft layer, or without any.
    public ModelConfig withDraft(@Nullable DraftConfig value) {
        return new ModelConfig(
                family,
                modelType,
                architecture,
                tensorPrefix,
                lmHeadName,
                vocabSize,
                hiddenSize,
                numHiddenLayers,
                numAttentionHeads,
                numKeyValueHeads,
                headDim,
                intermediateSize,
                rmsNormEps,
                attentionBias,
                useQkNorm,
                tieWordEmbeddings,
                rope,
                mla,
                moe,
                indexer,
                value,
                maxPositionEmbeddings,
                eosTokenIds,
                quantization);
    }

    /// What names of the draft layer's tensors begin with.
    String draftPrefix() {
        return tensorPrefix + "layers." + numHiddenLayers + ".";
    }

    /// Checks a config.json that is not in a file.
    ///
    /// @throws millrace.engine.InvalidModelException as [#read]
    public static ModelConfig of(byte[] config) {
        return ConfigReader.read(config, null);
    }

    /// Reads and checks config.json and, if there, generation_config.json; without the draft layer.
    ///
    /// @throws millrace.engine.InvalidModelException with a `CONFIG_*` code for anything that is not understood in full
    public static ModelConfig read(ModelFiles files) {
        return ConfigReader.read(
                files.read(ModelFiles.CONFIG), files.readIfPresent(ModelFiles.GENERATION_CONFIG));
    }
}

#pragma once

/// The names of the observers' classes: PyTorch's, and tsq's own.
namespace tsq::observer_classes {

inline constexpr const char* kBranch = "BranchObserver";
inline constexpr const char* kChannelStatistics = "ChannelStatisticsObserver";
inline constexpr const char* kEntropy = "EntropyObserver";
inline constexpr const char* kFixedQParams = "FixedQParamsObserver";
inline constexpr const char* kHistogram = "HistogramObserver";
inline constexpr const char* kIdentity = "Identity";
inline constexpr const char* kInputEqualization = "_InputEqualizationObserver";
inline constexpr const char* kInputProducts = "InputProductsObserver";
inline constexpr const char* kMSE = "MSEObserver";
inline constexpr const char* kMinMax = "MinMaxObserver";
inline constexpr const char* kMovingAverageMinMax = "MovingAverageMinMaxObserver";
inline constexpr const char* kMovingAveragePerChannelMinMax = "MovingAveragePerChannelMinMaxObserver";
inline constexpr const char* kNoop = "NoopObserver";
inline constexpr const char* kPerChannelMinMax = "PerChannelMinMaxObserver";
inline constexpr const char* kPercentile = "PercentileObserver";
inline constexpr const char* kPlaceholder = "PlaceholderObserver";
inline constexpr const char* kRecording = "RecordingObserver";
inline constexpr const char* kReuseInput = "ReuseInputObserver";
inline constexpr const char* kWeightEqualization = "_WeightEqualizationObserver";

}  // namespace tsq::observer_classes

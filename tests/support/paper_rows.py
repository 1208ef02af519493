"""The paper's deterministic rows: AP and AUC in percent, as printed."""

AP = {
    "cora": {"cn": 1.10, "aa": 2.07, "ra": 2.02, "ac": 2.43, "cos": 0.42},
    "citeseer": {"cn": 0.74, "aa": 1.24, "ra": 1.19, "ac": 2.65, "cos": 1.89},
    "pubmed": {"cn": 0.36, "aa": 0.45, "ra": 0.33, "ac": 2.50, "cos": 0.07},
    "photo": {"cn": 7.73, "aa": 9.67, "ra": 10.77, "ac": 16.63, "cos": 0.11},
    "computers": {"cn": 5.09, "aa": 6.52, "ra": 7.71, "ac": 11.64, "cos": 0.07},
}
AUC = {
    "cora": {"cn": 71.15, "aa": 71.22, "ra": 71.22, "ac": 75.41, "cos": 79.06},
    "citeseer": {"cn": 66.91, "aa": 66.92, "ra": 66.93, "ac": 72.41, "cos": 89.86},
    "pubmed": {"cn": 64.09, "aa": 64.09, "ra": 64.09, "ac": 67.46, "cos": 89.14},
    "photo": {"cn": 96.73, "aa": 97.02, "ra": 97.20, "ac": 98.24, "cos": 71.46},
    "computers": {"cn": 96.15, "aa": 96.58, "ra": 96.82, "ac": 96.86, "cos": 71.68},
}

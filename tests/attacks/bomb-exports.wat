;; attack: exports a thousand long names, to fill the screen of whoever reads the refusal
;; expect: admission refused: exports neither
;; generate: exports count=1000

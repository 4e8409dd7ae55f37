;; attack: components 1,000 deep
;; expect: admission refused: components inside components
;; generate: components depth=1000

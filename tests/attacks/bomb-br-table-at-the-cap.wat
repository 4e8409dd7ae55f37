;; attack: a jump table as large as may be, out of 1,000 blocks
;; expect: replied done
;; generate: br-table functions=1 depth=1000 targets=65000
